// The stand-in for cuBLASLt: products against float64, in a graph too, and everything that it must refuse.
#include "runtime/abi/CublasLt.h"
#include "tests/runtime/device/cudasim/CudaDriver.h"

#include <cmath>

namespace sluice::test {
namespace {

struct Library {
#define SLUICE_CUBLASLT_MEMBER(function, parameters) decltype(&::function) function = nullptr;
  SLUICE_CUBLASLT(SLUICE_CUBLASLT_MEMBER)
#undef SLUICE_CUBLASLT_MEMBER
  Library() {
    void *library = dlopen(SLUICE_CUBLASLT_SIM_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
      ADD_FAILURE() << dlerror();
      std::abort();
    }
#define SLUICE_CUBLASLT_FIND(name, parameters)                                                               \
  name = reinterpret_cast<decltype(&::name)>(dlsym(library, #name));
    SLUICE_CUBLASLT(SLUICE_CUBLASLT_FIND)
#undef SLUICE_CUBLASLT_FIND
  }
};

/// D[rows, columns] = op(A) op(B) + beta D, all with their columns one after the other.
struct Product {
  int transposeA = CUBLAS_OP_N, transposeB = CUBLAS_OP_N;
  uint64_t rows = 5, columns = 3, depth = 7;
  int64_t leadingA = 9, leadingB = 8, leadingD = 6;
  float beta = 1;
  uint32_t alignment = 16;
  uint64_t workspace = 1 << 16;
};

class CublasLtTest : public CudaSimTest {
protected:
  static Library &blas() {
    static Library library;
    return library;
  }
  void SetUp() override {
    start("check=all;seed=0;memory=268435456");
    ASSERT_EQ(cuda().cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    ASSERT_EQ(blas().cublasLtCreate(&handle), CUBLAS_STATUS_SUCCESS);
  }
  void TearDown() override {
    forget();
    blas().cublasLtDestroy(handle);
  }
  /// Destroys what prepare() made; null is fine.
  void forget() {
    for (cublasLtMatrixLayout_t layout : layouts)
      blas().cublasLtMatrixLayoutDestroy(layout);
    layouts.clear();
    blas().cublasLtMatmulDescDestroy(description);
    blas().cublasLtMatmulPreferenceDestroy(preference);
  }
  cublasLtMatrixLayout_t layout(uint64_t rows, uint64_t columns, int64_t leading) {
    cublasLtMatrixLayout_t made = nullptr;
    EXPECT_EQ(blas().cublasLtMatrixLayoutCreate(&made, CUDA_R_32F, rows, columns, leading),
              CUBLAS_STATUS_SUCCESS);
    layouts.push_back(made);
    return made;
  }
  /// Makes everything a call needs; operands with values that are small whole numbers.
  void prepare(const Product &product) {
    forget();
    blas().cublasLtMatmulDescCreate(&description, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    blas().cublasLtMatmulDescSetAttribute(description, CUBLASLT_MATMUL_DESC_TRANSA, &product.transposeA, 4);
    blas().cublasLtMatmulDescSetAttribute(description, CUBLASLT_MATMUL_DESC_TRANSB, &product.transposeB, 4);
    const bool flipA = product.transposeA == CUBLAS_OP_T, flipB = product.transposeB == CUBLAS_OP_T;
    a = layout(flipA ? product.depth : product.rows, flipA ? product.rows : product.depth, product.leadingA);
    b = layout(flipB ? product.columns : product.depth, flipB ? product.depth : product.columns,
               product.leadingB);
    d = layout(product.rows, product.columns, product.leadingD);
    blas().cublasLtMatmulPreferenceCreate(&preference);
    blas().cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                &product.workspace, sizeof product.workspace);
    for (int i = CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES; i <= CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES;
         ++i)
      blas().cublasLtMatmulPreferenceSetAttribute(
          preference, static_cast<cublasLtMatmulPreferenceAttribute>(i), &product.alignment, 4);
    int found = 0;
    ASSERT_EQ(blas().cublasLtMatmulAlgoGetHeuristic(handle, description, a, b, d, d, preference, 1, &chosen,
                                                    &found),
              CUBLAS_STATUS_SUCCESS);
    ASSERT_EQ(found, 1);
    EXPECT_LE(chosen.workspaceSize, product.workspace);
    for (std::vector<float> *values : {&valuesA, &valuesB, &valuesD}) {
      values->resize(100);
      for (size_t i = 0; i < values->size(); ++i)
        (*values)[i] = static_cast<float>(static_cast<int>((i * 7 + values->size()) % 11) - 5);
    }
    placeA = upload(valuesA);
    placeB = upload(valuesB);
    placeD = upload(valuesD);
    scratch = allocate(product.workspace ? product.workspace : 256);
  }
  cublasStatus_t multiply(float beta, CUdeviceptr shift = 0, size_t workspace = 1 << 16) {
    const float alpha = 2;
    auto pointer = [](CUdeviceptr address) { return reinterpret_cast<void *>(address); };
    return blas().cublasLtMatmul(handle, description, &alpha, pointer(placeA + shift), a, pointer(placeB), b,
                                 &beta, pointer(placeD), d, pointer(placeD), d, &chosen.algo,
                                 pointer(scratch), workspace, stream);
  }

  CUstream stream = nullptr;
  cublasLtHandle_t handle = nullptr;
  cublasLtMatmulDesc_t description = nullptr;
  cublasLtMatmulPreference_t preference = nullptr;
  std::vector<cublasLtMatrixLayout_t> layouts;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, d = nullptr;
  cublasLtMatmulHeuristicResult_t chosen{};
  std::vector<float> valuesA, valuesB, valuesD;
  CUdeviceptr placeA = 0, placeB = 0, placeD = 0, scratch = 0;
};

TEST_F(CublasLtTest, ProductsOfAllOrientations) {
  for (int transposeA : {CUBLAS_OP_N, CUBLAS_OP_T})
    for (int transposeB : {CUBLAS_OP_N, CUBLAS_OP_T})
      for (float beta : {0.0f, 1.0f}) {
        const Product product{transposeA, transposeB};
        prepare(product);
        ASSERT_EQ(multiply(beta), CUBLAS_STATUS_SUCCESS);
        ASSERT_EQ(cuda().cuStreamSynchronize(stream), CUDA_SUCCESS);
        const std::vector<float> got = download<float>(placeD, valuesD.size());
        std::vector<float> want = valuesD;
        for (uint64_t row = 0; row < product.rows; ++row)
          for (uint64_t column = 0; column < product.columns; ++column) {
            float sum = 0;
            for (uint64_t k = 0; k < product.depth; ++k)
              sum += valuesA[transposeA == CUBLAS_OP_T ? row * 9 + k : k * 9 + row] *
                     valuesB[transposeB == CUBLAS_OP_T ? k * 8 + column : column * 8 + k];
            float &place = want[column * 6 + row];
            place = 2 * sum + beta * place;
          }
        EXPECT_EQ(got, want) << "and nothing between the columns"; // whole numbers: exact
      }
  EXPECT_STREQ(cuda().findings(), "");
}

TEST_F(CublasLtTest, AProductInAGraph) {
  prepare({});
  ASSERT_EQ(cuda().cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), CUDA_SUCCESS);
  ASSERT_EQ(multiply(1), CUBLAS_STATUS_SUCCESS);
  CUgraph graph = nullptr;
  ASSERT_EQ(cuda().cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
  CUgraphExec executable = nullptr;
  ASSERT_EQ(cuda().cuGraphInstantiateWithFlags(&executable, graph, 0), CUDA_SUCCESS);
  EXPECT_EQ(download<float>(placeD, 1)[0], valuesD[0]) << "nothing has run";
  for (int replay = 0; replay < 3; ++replay)
    ASSERT_EQ(cuda().cuGraphLaunch(executable, stream), CUDA_SUCCESS);
  ASSERT_EQ(cuda().cuStreamSynchronize(stream), CUDA_SUCCESS);
  float sum = 0;
  for (int k = 0; k < 7; ++k)
    sum += valuesA[k * 9] * valuesB[k];
  EXPECT_EQ(download<float>(placeD, 1)[0], valuesD[0] + 3 * 2 * sum);
}

TEST_F(CublasLtTest, AnAlgorithmSaysWhatItIs) {
  int32_t number = -1;
  size_t written = 0;
  auto setting = [&](cublasLtMatmulAlgoConfigAttributes_t attribute, size_t bytes) {
    return blas().cublasLtMatmulAlgoConfigGetAttribute(&chosen.algo, attribute, &number, bytes, &written);
  };
  for (uint64_t workspace : {0, 1 << 16}) { // another algorithm where there is workspace
    Product product;
    product.workspace = workspace;
    prepare(product);
    EXPECT_EQ(setting(CUBLASLT_ALGO_CONFIG_ID, 4), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(number, workspace ? 2 : 1);
    EXPECT_EQ(written, 4u);
  }
  EXPECT_EQ(setting(CUBLASLT_ALGO_CONFIG_SPLITK_NUM, 4), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(number, 1);
  EXPECT_EQ(setting(CUBLASLT_ALGO_CONFIG_ID, 8), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(setting(static_cast<cublasLtMatmulAlgoConfigAttributes_t>(5), 4), CUBLAS_STATUS_NOT_SUPPORTED);
  chosen.algo = {};
  EXPECT_EQ(setting(CUBLASLT_ALGO_CONFIG_ID, 4), CUBLAS_STATUS_INVALID_VALUE);
}

TEST_F(CublasLtTest, WhatBreaksARuleIsRefused) {
  prepare({});
  EXPECT_EQ(multiply(0, 4), CUBLAS_STATUS_INVALID_VALUE) << "an address less aligned than was declared";
  EXPECT_EQ(multiply(0, 0, 16), CUBLAS_STATUS_INVALID_VALUE) << "less workspace than the algorithm needs";
  EXPECT_EQ(multiply(0, 1 << 20), CUBLAS_STATUS_INVALID_VALUE) << "outside of every allocation";
  EXPECT_EQ(multiply(0, 320), CUBLAS_STATUS_INVALID_VALUE) << "beyond the end of the allocation";
  cublasLtMatmulHeuristicResult_t kept = chosen;
  chosen.algo = {};
  EXPECT_EQ(multiply(0), CUBLAS_STATUS_INVALID_VALUE) << "an algorithm that no heuristic chose";
  prepare({CUBLAS_OP_N, CUBLAS_OP_N, 4, 3, 7});
  chosen = kept;
  EXPECT_EQ(multiply(0), CUBLAS_STATUS_INVALID_VALUE) << "an algorithm for another shape";
  EXPECT_EQ(cuda().cuStreamSynchronize(stream), CUDA_SUCCESS);
  EXPECT_EQ(download<float>(placeD, valuesD.size()), valuesD) << "nothing was written";

  cublasLtMatrixLayout_t none = nullptr;
  EXPECT_EQ(blas().cublasLtMatrixLayoutCreate(&none, CUDA_R_32F, 5, 3, 4), CUBLAS_STATUS_INVALID_VALUE)
      << "columns that overlap";
  EXPECT_EQ(blas().cublasLtMatrixLayoutCreate(&none, 14, 5, 3, 5), CUBLAS_STATUS_NOT_SUPPORTED) << "bfloat16";
  cublasLtMatmulDesc_t other = nullptr;
  EXPECT_EQ(blas().cublasLtMatmulDescCreate(&other, 77, CUDA_R_32F), CUBLAS_STATUS_NOT_SUPPORTED) << "TF32";
  int found = 0;
  EXPECT_EQ(
      blas().cublasLtMatmulAlgoGetHeuristic(handle, description, b, a, d, d, preference, 1, &chosen, &found),
      CUBLAS_STATUS_INVALID_VALUE)
      << "sizes that contradict each other";
}

} // namespace
} // namespace sluice::test
