// Whole kernels that NVRTC compiled, against float64; the same bits on any number of threads; exact counts.
#include "tests/runtime/device/cudasim/CudaDriver.h"

#include <cmath>
#include <numeric>
#include <random>

namespace sluice::test {
namespace {

std::vector<float> randomFloats(size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float &value : values)
    value = normal(random);
  return values;
}

double relativeError(const std::vector<float> &found, const std::vector<double> &expected) {
  double difference = 0, size = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    difference += (found[i] - expected[i]) * (found[i] - expected[i]);
    size += expected[i] * expected[i];
  }
  return std::sqrt(difference / size);
}

class KernelTest : public CudaSimTest {
protected:
  const std::string allChecks = "check=all;seed=0;threads=2;arch=80;memory=268435456;statistics=1";

  std::vector<float> matmul(unsigned M, unsigned N, unsigned K, const std::vector<float> &a,
                            const std::vector<float> &b) {
    CUmodule module = loadFile("kernels.ptx");
    const CUdeviceptr pa = upload(a), pb = upload(b), pc = allocate(M * N * 4);
    EXPECT_EQ(run(function(module, "matmulTiled"), {(N + 15) / 16, 16, (M + 15) / 16, 16}, pa, pb, pc, int(M),
                  int(N), int(K)),
              CUDA_SUCCESS)
        << cuda().message();
    return download<float>(pc, M * N);
  }
  uint64_t statistic(const std::string &name) {
    const std::string text = cuda().statistics();
    const size_t at = text.rfind("\"" + name + "\":");
    EXPECT_NE(at, std::string::npos) << text;
    return std::stoull(text.substr(at + name.size() + 3));
  }
};

TEST_F(KernelTest, Matmul) {
  const unsigned M = 37, N = 50, K = 41;
  const std::vector<float> a = randomFloats(M * K, 1), b = randomFloats(K * N, 2);
  std::vector<double> expected(M * N, 0.0);
  for (unsigned i = 0; i < M; ++i)
    for (unsigned j = 0; j < N; ++j)
      for (unsigned k = 0; k < K; ++k)
        expected[i * N + j] += double(a[i * K + k]) * b[k * N + j];
  const std::vector<float> first = matmul(M, N, K, a, b);
  EXPECT_LT(relativeError(first, expected), 1e-6);
  // The same bits whatever the threads and the order; and no findings on a clean kernel.
  for (const char *settings : {";threads=1", ";threads=3;seed=1", ";seed=99"}) {
    start(allChecks + settings);
    EXPECT_EQ(matmul(M, N, K, a, b), first);
    EXPECT_STREQ(cuda().findings(), "");
  }
}

TEST_F(KernelTest, Softmax) {
  start(allChecks);
  const int rows = 5, columns = 301;
  const std::vector<float> x = randomFloats(rows * columns, 3);
  const CUdeviceptr px = upload(x), py = allocate(x.size() * 4);
  ASSERT_EQ(run(function(loadFile("kernels.ptx"), "softmaxRows"), {rows, 128}, px, py, columns), CUDA_SUCCESS)
      << cuda().message();
  std::vector<double> expected(x.size());
  for (int r = 0; r < rows; ++r) {
    double sum = 0;
    for (int c = 0; c < columns; ++c)
      sum += std::exp(double(x[r * columns + c]));
    for (int c = 0; c < columns; ++c)
      expected[r * columns + c] = std::exp(double(x[r * columns + c])) / sum;
  }
  EXPECT_LT(relativeError(download<float>(py, x.size()), expected), 1e-6);
  EXPECT_STREQ(cuda().findings(), "");
}

TEST_F(KernelTest, Reduction) {
  start(allChecks);
  const std::vector<float> x = randomFloats(10000, 4);
  const CUdeviceptr px = upload(x), out = upload(std::vector<float>{0.0f});
  ASSERT_EQ(run(function(loadFile("kernels.ptx"), "reduceSum"), {7, 256}, px, out, int(x.size())),
            CUDA_SUCCESS)
      << cuda().message();
  const double sum = std::accumulate(x.begin(), x.end(), 0.0);
  EXPECT_NEAR(download<float>(out, 1)[0], sum, 1e-3);
  EXPECT_STREQ(cuda().findings(), "");
  EXPECT_EQ(statistic("atomics"), 7u);
  // Each element is read once; the atomics read and write 4 bytes each.
  EXPECT_EQ(statistic("global_load_bytes"), x.size() * 4 + 7 * 4);
  EXPECT_EQ(statistic("global_store_bytes"), 7u * 4);
}

TEST_F(KernelTest, ScanInDynamicSharedMemory) {
  start(allChecks);
  std::vector<int> x(3 * 96);
  std::iota(x.begin(), x.end(), -5);
  const CUdeviceptr px = upload(x), py = allocate(x.size() * 4);
  ASSERT_EQ(run(function(loadFile("kernels.ptx"), "blockScan"), {3, 96, 1, 1, 96 * 4}, px, py), CUDA_SUCCESS)
      << cuda().message();
  const std::vector<int> y = download<int>(py, x.size());
  for (size_t i = 0; i < x.size(); ++i)
    EXPECT_EQ(y[i], std::accumulate(x.begin() + i / 96 * 96, x.begin() + i + 1, 0)) << i;
  EXPECT_STREQ(cuda().findings(), "");
}

TEST_F(KernelTest, EveryLaneLeavesItsLoopAtAnotherTime) {
  const int n = 500;
  const CUdeviceptr py = allocate(n * 4);
  ASSERT_EQ(run(function(loadFile("kernels.ptx"), "collatz"), {4, 128}, py, n), CUDA_SUCCESS)
      << cuda().message();
  const std::vector<int> y = download<int>(py, n);
  for (int i = 0; i < n; ++i) {
    int steps = 0;
    for (long long v = i + 1; v != 1; ++steps)
      v = v & 1 ? 3 * v + 1 : v / 2;
    EXPECT_EQ(y[i], steps) << i;
  }
}

TEST_F(KernelTest, LanesContendForALock) {
  const CUdeviceptr lock = upload(std::vector<int>{0}), count = upload(std::vector<int>{0});
  ASSERT_EQ(run(function(loadFile("kernels.ptx"), "spinLock"), {3, 64}, lock, count), CUDA_SUCCESS)
      << cuda().message();
  EXPECT_EQ(download<int>(count, 1)[0], 3 * 64);
}

TEST_F(KernelTest, LastBlockReadsWhatFencedBlocksWrote) {
  for (const int fenced : {1, 0}) {
    start(allChecks);
    const std::vector<float> x = randomFloats(6 * 32, 5);
    const CUdeviceptr px = upload(x), partial = allocate(6 * 4), ticket = upload(std::vector<unsigned>{0}),
                      out = allocate(4);
    ASSERT_EQ(
        run(function(loadFile("kernels.ptx"), "lastBlockSum"), {6, 32}, px, partial, ticket, out, fenced),
        CUDA_SUCCESS)
        << cuda().message();
    EXPECT_NEAR(download<float>(out, 1)[0], std::accumulate(x.begin(), x.end(), 0.0), 1e-4);
    // Without the fence the sum is right here by luck only, and the race check says so.
    EXPECT_EQ(std::string(cuda().findings()).find("race: ") != std::string::npos, !fenced)
        << cuda().findings();
  }
}

TEST_F(KernelTest, CallsLocalArraysAndConstants) {
  start(allChecks);
  const int n = 100;
  const std::vector<float> x = randomFloats(n, 6);
  const CUdeviceptr px = upload(x), py = allocate(n * 4);
  ASSERT_EQ(run(function(loadFile("kernels.ptx"), "callsAndLocals"), {4, 32}, px, py, n), CUDA_SUCCESS)
      << cuda().message();
  const double table[4] = {1, -2, 0.5, 0.25};
  std::vector<double> expected(n);
  for (int i = 0; i < n; ++i)
    for (int k = 3; k >= 0; --k)
      expected[i] = expected[i] * x[i] + table[(k + i % 3) & 3];
  EXPECT_LT(relativeError(download<float>(py, n), expected), 1e-6);
  EXPECT_STREQ(cuda().findings(), "");
}

TEST_F(KernelTest, BankConflictsAreExact) {
  CUfunction kernel = function(loadFile("kernels.ptx"), "strided");
  const CUdeviceptr py = allocate(32 * 4);
  for (const int stride : {1, 2, 3, 4, 8, 32}) {
    ASSERT_EQ(run(kernel, {}, py, stride), CUDA_SUCCESS) << cuda().message();
    // Lanes whose words fall into one bank: 32 / gcd gives the distinct banks.
    EXPECT_EQ(statistic("bank_conflicts"), static_cast<uint64_t>(std::gcd(stride, 32)) - 1) << stride;
    // One coalesced store of 128 bytes.
    EXPECT_EQ(statistic("global_sectors"), 4u);
  }
}

} // namespace
} // namespace sluice::test
