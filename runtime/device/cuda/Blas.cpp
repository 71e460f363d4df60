#include "runtime/device/cuda/Blas.h"

#include <dlfcn.h>

namespace sluice::cuda {

/// Owns the library's objects. The library's matrices have their columns one after the other, ours their
/// rows: it computes C^T = B^T A^T, so its first operand is B and its second A.
class BlasProduct {
public:
  explicit BlasProduct(const Blas &api) : api(api) {}
  BlasProduct(const BlasProduct &) = delete;
  BlasProduct &operator=(const BlasProduct &) = delete;
  ~BlasProduct() {
    for (cublasLtMatrixLayout_t layout : {first, second, result})
      if (layout)
        api.cublasLtMatrixLayoutDestroy(layout);
    if (description)
      api.cublasLtMatmulDescDestroy(description);
  }

  const Blas &api;
  cublasLtMatmulDesc_t description = nullptr;
  cublasLtMatrixLayout_t first = nullptr, second = nullptr, result = nullptr;
  cublasLtMatmulAlgo_t algorithm{};
  DenseProduct shape{};
  CUdeviceptr a = 0, b = 0, c = 0;
  float beta = 0;
  uint64_t workspace = 0;
};

namespace {

/// A matrix of `lines` x `depth` numbers by its strides, as the library takes it: the other way round
/// (transposed) where neighbours along the depth are neighbours in memory.
struct Layout {
  bool transposed;
  uint64_t rows, columns;
  int64_t leading;

  Layout(int64_t lines, int64_t depth, int64_t lineStride, int64_t depthStride)
      : transposed(depthStride == 1), rows(static_cast<uint64_t>(transposed ? depth : lines)),
        columns(static_cast<uint64_t>(transposed ? lines : depth)),
        leading(transposed ? lineStride : depthStride) {}
};

/// The largest power of two up to 256 that divides the address.
uint32_t alignmentOf(CUdeviceptr address) {
  uint32_t alignment = 256;
  while (address % alignment != 0)
    alignment /= 2;
  return alignment;
}

} // namespace

StatusOr<std::shared_ptr<const Blas>> Blas::open(const std::string &library) {
  void *opened = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!opened) {
    const char *reason = ::dlerror();
    return failure("no cuBLASLt: ", reason ? reason : library.c_str());
  }
  std::shared_ptr<Blas> blas(new Blas);
  std::string missing;
  auto find = [&](auto &entry, const char *name) {
    entry = reinterpret_cast<std::remove_reference_t<decltype(entry)>>(::dlsym(opened, name));
    if (!entry)
      missing += concat(missing.empty() ? "" : ", ", name);
  };
#define SLUICE_CUBLASLT_FIND(function, parameters) find(blas->function, #function);
  SLUICE_CUBLASLT(SLUICE_CUBLASLT_FIND)
#undef SLUICE_CUBLASLT_FIND
  if (auto *version = reinterpret_cast<decltype(&cublasLtGetVersion)>(::dlsym(opened, "cublasLtGetVersion")))
    blas->version = version();
  if (!missing.empty())
    return failure("cuBLASLt ", library, " lacks ", missing);
  if (cublasStatus_t status = blas->cublasLtCreate(&blas->handle); status != CUBLAS_STATUS_SUCCESS)
    return failure("cuBLASLt ", library, " does not start: status ", status);
  return std::shared_ptr<const Blas>(std::move(blas));
}

Blas::~Blas() {
  if (handle)
    cublasLtDestroy(handle);
}

std::shared_ptr<const BlasProduct> Blas::plan(const DenseProduct &product, CUdeviceptr c, CUdeviceptr a,
                                              CUdeviceptr b) const {
  if (product.m == 0 || product.n == 0 || product.k == 0)
    return nullptr;
  const Layout first(product.n, product.k, product.columnB, product.depthB),
      second(product.m, product.k, product.rowA, product.depthA);
  auto made = std::make_shared<BlasProduct>(*this);
  made->shape = product;
  made->a = a;
  made->b = b;
  made->c = c;
  made->beta = product.accumulate ? 1.0f : 0.0f;
  const int transposeFirst = first.transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  // The second operand is k x m as it is used: what lies along the depth is as the library wants it.
  const int transposeSecond = second.transposed ? CUBLAS_OP_N : CUBLAS_OP_T;
  cublasLtMatmulPreference_t preference = nullptr;
  const uint64_t workspace = workspaceLimit;
  const uint32_t alignments[] = {alignmentOf(b), alignmentOf(a), alignmentOf(c), alignmentOf(c)};
  bool fine =
      cublasLtMatmulDescCreate(&made->description, CUBLAS_COMPUTE_32F, CUDA_R_32F) == CUBLAS_STATUS_SUCCESS &&
      cublasLtMatmulDescSetAttribute(made->description, CUBLASLT_MATMUL_DESC_TRANSA, &transposeFirst,
                                     sizeof transposeFirst) == CUBLAS_STATUS_SUCCESS &&
      cublasLtMatmulDescSetAttribute(made->description, CUBLASLT_MATMUL_DESC_TRANSB, &transposeSecond,
                                     sizeof transposeSecond) == CUBLAS_STATUS_SUCCESS &&
      cublasLtMatrixLayoutCreate(&made->first, CUDA_R_32F, first.rows, first.columns, first.leading) ==
          CUBLAS_STATUS_SUCCESS &&
      cublasLtMatrixLayoutCreate(&made->second, CUDA_R_32F, second.rows, second.columns, second.leading) ==
          CUBLAS_STATUS_SUCCESS &&
      cublasLtMatrixLayoutCreate(&made->result, CUDA_R_32F, static_cast<uint64_t>(product.n),
                                 static_cast<uint64_t>(product.m), product.n) == CUBLAS_STATUS_SUCCESS &&
      cublasLtMatmulPreferenceCreate(&preference) == CUBLAS_STATUS_SUCCESS &&
      cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace,
                                           sizeof workspace) == CUBLAS_STATUS_SUCCESS;
  for (int i = 0; fine && i < 4; ++i)
    fine = cublasLtMatmulPreferenceSetAttribute(
               preference,
               static_cast<cublasLtMatmulPreferenceAttribute>(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES + i),
               &alignments[i], sizeof alignments[i]) == CUBLAS_STATUS_SUCCESS;
  cublasLtMatmulHeuristicResult_t chosen{};
  int found = 0;
  fine =
      fine &&
      cublasLtMatmulAlgoGetHeuristic(handle, made->description, made->first, made->second, made->result,
                                     made->result, preference, 1, &chosen, &found) == CUBLAS_STATUS_SUCCESS &&
      found == 1 && chosen.state == CUBLAS_STATUS_SUCCESS;
  if (preference)
    cublasLtMatmulPreferenceDestroy(preference);
  if (!fine)
    return nullptr;
  made->algorithm = chosen.algo;
  made->workspace = chosen.workspaceSize;
  return made;
}

uint64_t Blas::workspaceBytes(const BlasProduct &product) {
  return product.workspace;
}

std::string Blas::describe(const BlasProduct &product) const {
  auto setting = [&](cublasLtMatmulAlgoConfigAttributes_t attribute) {
    int32_t value = 0;
    size_t written = 0;
    const cublasStatus_t status =
        cublasLtMatmulAlgoConfigGetAttribute(&product.algorithm, attribute, &value, sizeof value, &written);
    return status == CUBLAS_STATUS_SUCCESS ? concat(value) : std::string("unknown");
  };
  return concat(product.shape.m, " x ", product.shape.n, ", depth ", product.shape.k, ": cuBLASLt ", version,
                ", algorithm ", setting(CUBLASLT_ALGO_CONFIG_ID), ", tile ",
                setting(CUBLASLT_ALGO_CONFIG_TILE_ID), ", stages ", setting(CUBLASLT_ALGO_CONFIG_STAGES_ID),
                ", split ", setting(CUBLASLT_ALGO_CONFIG_SPLITK_NUM), ", workspace ", product.workspace,
                " B");
}

Status Blas::enqueue(const BlasProduct &product, CUdeviceptr workspace, CUstream stream,
                     std::string_view what) const {
  const float alpha = 1;
  auto pointer = [](CUdeviceptr address) { return reinterpret_cast<void *>(address); };
  const cublasStatus_t status = cublasLtMatmul(
      handle, product.description, &alpha, pointer(product.b), product.first, pointer(product.a),
      product.second, &product.beta, pointer(product.c), product.result, pointer(product.c), product.result,
      &product.algorithm, pointer(workspace), product.workspace, stream);
  return status == CUBLAS_STATUS_SUCCESS ? absl::OkStatus() : failure(what, ": cuBLASLt status ", status);
}

} // namespace sluice::cuda
