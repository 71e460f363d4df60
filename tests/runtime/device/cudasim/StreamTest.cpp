// Streams that run late, events, capture, and what the driver refuses.
#include "tests/runtime/device/cudasim/CudaDriver.h"

#include <cstring>

namespace sluice::test {
namespace {

class StreamTest : public CudaSimTest {
protected:
  CUstream stream() {
    CUstream result = nullptr;
    EXPECT_EQ(cuda().cuStreamCreate(&result, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    return result;
  }
  CUevent event() {
    CUevent result = nullptr;
    EXPECT_EQ(cuda().cuEventCreate(&result, 0), CUDA_SUCCESS);
    return result;
  }
  /// Fills x in one stream and adds it to y in another, with or without an event between. Returns y[0].
  float fillThenAdd(bool ordered, int seed) {
    start("seed=" + std::to_string(seed));
    CUfunction scaleAdd = function(loadFile("kernels.ptx"), "scaleAdd");
    const CUdeviceptr x = upload(std::vector<float>(64, 0.0f)), y = upload(std::vector<float>(64, 1.0f));
    CUstream first = stream(), second = stream();
    const unsigned two = 0x40000000;
    EXPECT_EQ(cuda().cuMemsetD32Async(x, two, 64, first), CUDA_SUCCESS);
    if (ordered) {
      CUevent filled = event();
      EXPECT_EQ(cuda().cuEventRecord(filled, first), CUDA_SUCCESS);
      EXPECT_EQ(cuda().cuStreamWaitEvent(second, filled, 0), CUDA_SUCCESS);
    }
    EXPECT_EQ(launch(scaleAdd, {2}, second, x, y, 3.0f, 64), CUDA_SUCCESS);
    EXPECT_EQ(cuda().cuStreamSynchronize(second), CUDA_SUCCESS);
    return download<float>(y, 1)[0];
  }
};

TEST_F(StreamTest, AMissingEventShows) {
  int wrong = 0;
  for (int seed = 1; seed <= 8; ++seed) {
    EXPECT_EQ(fillThenAdd(true, seed), 7.0f);
    wrong += fillThenAdd(false, seed) != 7.0f;
  }
  EXPECT_GT(wrong, 0);
}

/// As on a GPU, a stream that is created as non-blocking does not wait for the default stream.
TEST_F(StreamTest, AFillOfTheDefaultStreamIsNotAwaited) {
  int wrong = 0;
  for (int seed = 1; seed <= 8; ++seed)
    for (bool waits : {true, false}) {
      start("seed=" + std::to_string(seed));
      CUfunction scaleAdd = function(loadFile("kernels.ptx"), "scaleAdd");
      const CUdeviceptr x = upload(std::vector<float>(64, 0.0f)), y = upload(std::vector<float>(64, 1.0f));
      CUstream other = stream();
      EXPECT_EQ(cuda().cuMemsetD32_v2(x, 0x40000000, 64), CUDA_SUCCESS);
      if (waits)
        EXPECT_EQ(cuda().cuCtxSynchronize(), CUDA_SUCCESS);
      EXPECT_EQ(launch(scaleAdd, {2}, other, x, y, 3.0f, 64), CUDA_SUCCESS);
      EXPECT_EQ(cuda().cuStreamSynchronize(other), CUDA_SUCCESS);
      const float result = download<float>(y, 1)[0];
      if (waits)
        EXPECT_EQ(result, 7.0f);
      else
        wrong += result != 7.0f;
    }
  EXPECT_GT(wrong, 0);
}

TEST_F(StreamTest, WorkRunsLate) {
  const CUdeviceptr x = upload(std::vector<float>{1.0f});
  CUstream one = stream();
  ASSERT_EQ(cuda().cuMemsetD32Async(x, 0, 1, one), CUDA_SUCCESS);
  EXPECT_EQ(cuda().cuStreamQuery(one), CUDA_ERROR_NOT_READY);
  ASSERT_EQ(cuda().cuStreamSynchronize(one), CUDA_SUCCESS);
  EXPECT_EQ(cuda().cuStreamQuery(one), CUDA_SUCCESS);
  EXPECT_EQ(download<float>(x, 1)[0], 0.0f);
}

TEST_F(StreamTest, PinnedMemoryIsReadWhenTheCopyRuns) {
  void *pinned = nullptr;
  ASSERT_EQ(cuda().cuMemHostAlloc(&pinned, 4, 0), CUDA_SUCCESS);
  int pageable = 1;
  std::memcpy(pinned, &pageable, 4);
  const CUdeviceptr a = allocate(4), b = allocate(4);
  CUstream one = stream();
  ASSERT_EQ(cuda().cuMemcpyHtoDAsync_v2(a, pinned, 4, one), CUDA_SUCCESS);
  ASSERT_EQ(cuda().cuMemcpyHtoDAsync_v2(b, &pageable, 4, one), CUDA_SUCCESS);
  pageable = 2;
  std::memcpy(pinned, &pageable, 4);
  ASSERT_EQ(cuda().cuStreamSynchronize(one), CUDA_SUCCESS);
  EXPECT_EQ(download<int>(a, 1)[0], 2);
  EXPECT_EQ(download<int>(b, 1)[0], 1);
}

TEST_F(StreamTest, CaptureAndReplay) {
  CUfunction scaleAdd = function(loadFile("kernels.ptx"), "scaleAdd");
  const CUdeviceptr x = upload(std::vector<float>(64, 2.0f)), y = upload(std::vector<float>(64, 1.0f));
  CUstream first = stream(), second = stream();
  CUevent fork = event(), join = event();
  ASSERT_EQ(cuda().cuStreamBeginCapture_v2(first, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  ASSERT_EQ(cuda().cuStreamIsCapturing(first, &status), CUDA_SUCCESS);
  EXPECT_EQ(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
  ASSERT_EQ(launch(scaleAdd, {2}, first, x, y, 1.0f, 64), CUDA_SUCCESS);
  ASSERT_EQ(cuda().cuEventRecord(fork, first), CUDA_SUCCESS);
  ASSERT_EQ(cuda().cuStreamWaitEvent(second, fork, 0), CUDA_SUCCESS);
  ASSERT_EQ(launch(scaleAdd, {2}, second, x, y, 10.0f, 64), CUDA_SUCCESS);
  ASSERT_EQ(cuda().cuEventRecord(join, second), CUDA_SUCCESS);
  ASSERT_EQ(cuda().cuStreamWaitEvent(first, join, 0), CUDA_SUCCESS);
  CUgraph graph = nullptr;
  ASSERT_EQ(cuda().cuStreamEndCapture(first, &graph), CUDA_SUCCESS) << cuda().message();
  size_t nodes = 0;
  ASSERT_EQ(cuda().cuGraphGetNodes(graph, nullptr, &nodes), CUDA_SUCCESS);
  EXPECT_EQ(nodes, 2u);
  // Nothing has run yet; every replay adds 2 + 20.
  EXPECT_EQ(download<float>(y, 1)[0], 1.0f);
  CUgraphExec executable = nullptr;
  ASSERT_EQ(cuda().cuGraphInstantiateWithFlags(&executable, graph, 0), CUDA_SUCCESS);
  for (int replay = 1; replay <= 3; ++replay)
    ASSERT_EQ(cuda().cuGraphLaunch(executable, first), CUDA_SUCCESS);
  ASSERT_EQ(cuda().cuStreamSynchronize(first), CUDA_SUCCESS);
  EXPECT_EQ(download<float>(y, 1)[0], 1.0f + 3 * 22.0f);
}

TEST_F(StreamTest, CopiesOfAGraphUsePinnedMemoryAsItIsAtReplay) {
  void *pinned = nullptr;
  ASSERT_EQ(cuda().cuMemHostAlloc(&pinned, 8, 0), CUDA_SUCCESS);
  int *in = static_cast<int *>(pinned), *out = in + 1;
  const CUdeviceptr x = allocate(4);
  CUstream one = stream();
  ASSERT_EQ(cuda().cuStreamBeginCapture_v2(one, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), CUDA_SUCCESS);
  ASSERT_EQ(cuda().cuMemcpyHtoDAsync_v2(x, in, 4, one), CUDA_SUCCESS);
  ASSERT_EQ(cuda().cuMemcpyDtoHAsync_v2(out, x, 4, one), CUDA_SUCCESS);
  CUgraph graph = nullptr;
  ASSERT_EQ(cuda().cuStreamEndCapture(one, &graph), CUDA_SUCCESS) << cuda().message();
  size_t nodes = 0;
  ASSERT_EQ(cuda().cuGraphGetNodes(graph, nullptr, &nodes), CUDA_SUCCESS);
  EXPECT_EQ(nodes, 2u);
  CUgraphExec executable = nullptr;
  ASSERT_EQ(cuda().cuGraphInstantiateWithFlags(&executable, graph, 0), CUDA_SUCCESS);
  for (int value : {3, 5}) {
    *in = value, *out = 0;
    ASSERT_EQ(cuda().cuGraphLaunch(executable, one), CUDA_SUCCESS);
    EXPECT_EQ(*out, 0) << "a replay waits for nothing";
    ASSERT_EQ(cuda().cuStreamSynchronize(one), CUDA_SUCCESS);
    EXPECT_EQ(*out, value);
  }
  // The last value that the host wrote before the copy ran counts, early or late.
  *in = 7;
  ASSERT_EQ(cuda().cuGraphLaunch(executable, one), CUDA_SUCCESS);
  *in = 8;
  ASSERT_EQ(cuda().cuStreamSynchronize(one), CUDA_SUCCESS);
  EXPECT_EQ(*out, 8);
  ASSERT_EQ(cuda().cuMemFreeHost(pinned), CUDA_SUCCESS);
  ASSERT_EQ(cuda().cuGraphLaunch(executable, one), CUDA_SUCCESS);
  EXPECT_EQ(cuda().cuStreamSynchronize(one), CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST_F(StreamTest, CaptureRefusesWhatItMust) {
  CUstream first = stream(), second = stream();
  CUgraph graph = nullptr;
  const CUdeviceptr x = allocate(4);
  ASSERT_EQ(cuda().cuStreamBeginCapture_v2(first, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
  EXPECT_EQ(cuda().cuCtxSynchronize(), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT_EQ(cuda().cuStreamEndCapture(first, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  // Copies whose host memory the driver would have to hold.
  int pageable = 0;
  for (bool toDevice : {true, false}) {
    ASSERT_EQ(cuda().cuStreamBeginCapture_v2(first, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
    EXPECT_EQ(toDevice ? cuda().cuMemcpyHtoDAsync_v2(x, &pageable, 4, first)
                       : cuda().cuMemcpyDtoHAsync_v2(&pageable, x, 4, first),
              CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    EXPECT_EQ(cuda().cuStreamEndCapture(first, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  }
  // A fork that is not joined.
  CUevent fork = event();
  ASSERT_EQ(cuda().cuStreamBeginCapture_v2(first, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
  ASSERT_EQ(cuda().cuEventRecord(fork, first), CUDA_SUCCESS);
  ASSERT_EQ(cuda().cuStreamWaitEvent(second, fork, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuda().cuMemsetD32Async(x, 0, 1, second), CUDA_SUCCESS);
  EXPECT_EQ(cuda().cuStreamEndCapture(first, &graph), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
  EXPECT_EQ(cuda().cuStreamEndCapture(first, &graph), CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
}

TEST_F(StreamTest, HostFunctions) {
  CUstream one = stream();
  int calls = 0;
  ASSERT_EQ(
      cuda().cuLaunchHostFunc(one, [](void *data) { ++*static_cast<int *>(data); }, &calls), CUDA_SUCCESS);
  EXPECT_EQ(calls, 0);
  ASSERT_EQ(cuda().cuStreamSynchronize(one), CUDA_SUCCESS);
  EXPECT_EQ(calls, 1);
}

TEST_F(StreamTest, MemoryIsPoisonedAndCounted) {
  const CUdeviceptr x = allocate(8);
  EXPECT_EQ(download<uint64_t>(x, 1)[0], ~uint64_t(0));
  // No address that a host program could read through.
  EXPECT_NE(x >> 47, 0u);
  size_t before = 0, after = 0, total = 0;
  ASSERT_EQ(cuda().cuMemGetInfo_v2(&before, &total), CUDA_SUCCESS);
  EXPECT_EQ(total, 268435456u);
  ASSERT_EQ(cuda().cuMemFree_v2(x), CUDA_SUCCESS);
  ASSERT_EQ(cuda().cuMemGetInfo_v2(&after, &total), CUDA_SUCCESS);
  EXPECT_EQ(after, before + 8);
  EXPECT_EQ(cuda().cuMemFree_v2(x), CUDA_ERROR_INVALID_VALUE);
  CUdeviceptr large = 0;
  EXPECT_EQ(cuda().cuMemAlloc_v2(&large, size_t(1) << 40), CUDA_ERROR_OUT_OF_MEMORY);
  int value = 0;
  EXPECT_EQ(cuda().cuMemcpyDtoH_v2(&value, x, 4), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(StreamTest, DeviceAndNames) {
  int value = 0;
  ASSERT_EQ(cuda().cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0),
            CUDA_SUCCESS);
  EXPECT_EQ(value, 8);
  const char *name = nullptr;
  ASSERT_EQ(cuda().cuGetErrorName(CUDA_ERROR_ILLEGAL_ADDRESS, &name), CUDA_SUCCESS);
  EXPECT_STREQ(name, "CUDA_ERROR_ILLEGAL_ADDRESS");
  void *entry = nullptr;
  ASSERT_EQ(cuda().cuGetProcAddress_v2("cuMemAlloc", &entry, 13000, 0, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(entry, reinterpret_cast<void *>(cuda().cuMemAlloc_v2));
  EXPECT_EQ(cuda().cuGetProcAddress_v2("cuTexRefCreate", &entry, 13000, 0, nullptr), CUDA_ERROR_NOT_FOUND);
}

} // namespace
} // namespace sluice::test
