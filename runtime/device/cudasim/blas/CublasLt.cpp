// The stand-in for cuBLASLt beside the simulated driver: float32 products in plain loops, and every rule of
// the published interface that a product can break checked when it is asked for. What it does not know it
// refuses.
#include "runtime/abi/CublasLt.h"
#include "runtime/device/cudasim/driver/Simulator.h"

#include <memory>
#include <vector>

struct cublasLtContext {};
struct cublasLtMatmulDescription {
  int transposeA = CUBLAS_OP_N, transposeB = CUBLAS_OP_N;
};
struct cublasLtMatrixDescription {
  uint64_t rows, columns;
  int64_t leading;

  uint64_t bytes() const {
    return rows && columns ? (static_cast<uint64_t>(leading) * (columns - 1) + rows) * sizeof(float) : 0;
  }
};
struct cublasLtPreferenceDescription {
  uint64_t workspace = 0;
  uint32_t alignment[4] = {256, 256, 256, 256}; // of A, B, C, D, unless a smaller one is named
};

namespace {

/// What an algorithm of this library needs of workspace when it is allowed so much, else none.
constexpr uint64_t wantedWorkspace = 4096;
constexpr uint64_t mark = 0x736c75696365ull; // of algorithms that the heuristic made

/// An algorithm's record: the mark, the shape it was made for, alignments, workspace.
struct Algorithm {
  uint64_t mark, rows, columns, depth, alignment[2], workspace, unused;
};
static_assert(sizeof(Algorithm) == sizeof(cublasLtMatmulAlgo_t));

/// A copy for the stream: the description may be gone when it runs.
struct Product {
  uint64_t rows, columns, depth;
  int64_t stepA[2], stepB[2], leadingC, leadingD; // elements between lines of the result, along the depth
  float alpha, beta;
  CUdeviceptr a, b, c, d, workspace;
  uint64_t bytesA, bytesB, bytesC, bytesD, workspaceBytes;

  int run() const {
    const auto *left = static_cast<const float *>(cudasimHostAddress(a, bytesA, 0));
    const auto *right = static_cast<const float *>(cudasimHostAddress(b, bytesB, 0));
    const auto *old = static_cast<const float *>(beta != 0 ? cudasimHostAddress(c, bytesC, 0) : nullptr);
    auto *result = static_cast<float *>(cudasimHostAddress(d, bytesD, 1));
    if (!left || !right || !result || (beta != 0 && !old))
      return CUDA_ERROR_ILLEGAL_ADDRESS;
    if (workspaceBytes) { // whoever shares it finds nonsense
      auto *scratch = static_cast<unsigned char *>(cudasimHostAddress(workspace, workspaceBytes, 1));
      if (!scratch)
        return CUDA_ERROR_ILLEGAL_ADDRESS;
      std::fill_n(scratch, workspaceBytes, static_cast<unsigned char>(0xff));
    }
    std::vector<float> sums(rows);
    for (uint64_t column = 0; column < columns; ++column) {
      std::fill(sums.begin(), sums.end(), 0.0f);
      for (uint64_t k = 0; k < depth; ++k) {
        const float factor =
            right[static_cast<int64_t>(column) * stepB[0] + static_cast<int64_t>(k) * stepB[1]];
        const float *line = left + static_cast<int64_t>(k) * stepA[1];
        for (uint64_t row = 0; row < rows; ++row)
          sums[row] += line[static_cast<int64_t>(row) * stepA[0]] * factor;
      }
      for (uint64_t row = 0; row < rows; ++row) {
        const int64_t at = static_cast<int64_t>(column) * leadingD + static_cast<int64_t>(row);
        const float before =
            old ? beta * old[static_cast<int64_t>(column) * leadingC + static_cast<int64_t>(row)] : 0.0f;
        result[at] = alpha * sums[row] + before;
      }
    }
    return CUDA_SUCCESS;
  }
};

template <typename T> bool take(T &target, const void *value, size_t bytes) {
  if (!value || bytes != sizeof(T))
    return false;
  target = *static_cast<const T *>(value);
  return true;
}

cublasStatus_t created(bool fine) {
  return fine ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

/// The product's sizes by the layouts of D and of A as it is used; false where layouts contradict each other.
bool sizesOf(const cublasLtMatmulDescription &description, const cublasLtMatrixDescription &a,
             const cublasLtMatrixDescription &b, const cublasLtMatrixDescription &c,
             const cublasLtMatrixDescription &d, Product &product) {
  const bool flipA = description.transposeA == CUBLAS_OP_T, flipB = description.transposeB == CUBLAS_OP_T;
  product.rows = d.rows;
  product.columns = d.columns;
  product.depth = flipA ? a.rows : a.columns;
  product.stepA[0] = flipA ? a.leading : 1;
  product.stepA[1] = flipA ? 1 : a.leading;
  product.stepB[0] = flipB ? 1 : b.leading;
  product.stepB[1] = flipB ? b.leading : 1;
  product.leadingC = c.leading;
  product.leadingD = d.leading;
  product.bytesA = a.bytes();
  product.bytesB = b.bytes();
  product.bytesC = c.bytes();
  product.bytesD = d.bytes();
  return (flipA ? a.columns : a.rows) == d.rows && (flipB ? b.columns : b.rows) == product.depth &&
         (flipB ? b.rows : b.columns) == d.columns && c.rows == d.rows && c.columns == d.columns &&
         product.rows > 0 && product.columns > 0 && product.depth > 0;
}

bool aligned(const void *pointer, uint64_t alignment) {
  return reinterpret_cast<uint64_t>(pointer) % alignment == 0;
}

} // namespace

size_t cublasLtGetVersion() {
  return 130100; // the interface's
}
cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle) {
  return created(handle && (*handle = new cublasLtContext));
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *description, int computeType, int scaleType) {
  if (computeType != CUBLAS_COMPUTE_32F || scaleType != CUDA_R_32F)
    return CUBLAS_STATUS_NOT_SUPPORTED;
  return created(description && (*description = new cublasLtMatmulDescription));
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t description) {
  delete description;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t description,
                                              cublasLtMatmulDescAttribute attribute, const void *value,
                                              size_t bytes) {
  int operation = -1;
  if (!description || !take(operation, value, bytes) ||
      (operation != CUBLAS_OP_N && operation != CUBLAS_OP_T))
    return CUBLAS_STATUS_INVALID_VALUE;
  if (attribute != CUBLASLT_MATMUL_DESC_TRANSA && attribute != CUBLASLT_MATMUL_DESC_TRANSB)
    return CUBLAS_STATUS_NOT_SUPPORTED;
  (attribute == CUBLASLT_MATMUL_DESC_TRANSA ? description->transposeA : description->transposeB) = operation;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout, int type, uint64_t rows,
                                          uint64_t columns, int64_t leading) {
  if (type != CUDA_R_32F)
    return CUBLAS_STATUS_NOT_SUPPORTED;
  // Columns lie one after the other, so a leading dimension is at least a column's length.
  if (!layout || leading < static_cast<int64_t>(rows) || rows > INT32_MAX || columns > INT32_MAX)
    return CUBLAS_STATUS_INVALID_VALUE;
  *layout = new cublasLtMatrixDescription{rows, columns, leading};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete layout;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference) {
  return created(preference && (*preference = new cublasLtPreferenceDescription));
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete preference;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttribute attribute,
                                                    const void *value, size_t bytes) {
  if (!preference)
    return CUBLAS_STATUS_INVALID_VALUE;
  if (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES)
    return created(take(preference->workspace, value, bytes));
  if (attribute < CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES ||
      attribute > CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES)
    return CUBLAS_STATUS_NOT_SUPPORTED;
  uint32_t alignment = 0;
  if (!take(alignment, value, bytes) || alignment == 0 || (alignment & (alignment - 1)) != 0)
    return CUBLAS_STATUS_INVALID_VALUE;
  preference->alignment[attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES] = alignment;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t description,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t *results, int *found) {
  Product product{};
  if (!handle || !description || !a || !b || !c || !d || !preference || wanted < 1 || !results || !found ||
      !sizesOf(*description, *a, *b, *c, *d, product))
    return CUBLAS_STATUS_INVALID_VALUE;
  *found = 0;
  for (uint32_t alignment : preference->alignment)
    if (alignment < sizeof(float)) // no algorithm reads half numbers
      return CUBLAS_STATUS_NOT_SUPPORTED;
  const uint64_t workspace = preference->workspace >= wantedWorkspace ? wantedWorkspace : 0;
  const auto pair = [&](int i) {
    return preference->alignment[i] | uint64_t{preference->alignment[i + 1]} << 32;
  };
  *results = {};
  const Algorithm algorithm{mark, product.rows, product.columns, product.depth, {pair(0), pair(2)}, workspace,
                            0};
  static_assert(sizeof algorithm == sizeof results->algo);
  __builtin_memcpy(&results->algo, &algorithm, sizeof algorithm);
  results->workspaceSize = workspace;
  results->state = CUBLAS_STATUS_SUCCESS;
  *found = 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t *algorithm,
                                                    cublasLtMatmulAlgoConfigAttributes_t attribute,
                                                    void *value, size_t bytes, size_t *written) {
  Algorithm made{};
  if (!algorithm || !value || bytes != sizeof(int32_t))
    return CUBLAS_STATUS_INVALID_VALUE;
  __builtin_memcpy(&made, algorithm, sizeof made);
  if (made.mark != mark)
    return CUBLAS_STATUS_INVALID_VALUE;
  int32_t number = 0;
  switch (attribute) {
  case CUBLASLT_ALGO_CONFIG_ID: // one with and one without workspace
    number = made.workspace ? 2 : 1;
    break;
  case CUBLASLT_ALGO_CONFIG_SPLITK_NUM:
    number = 1;
    break;
  case CUBLASLT_ALGO_CONFIG_TILE_ID:
  case CUBLASLT_ALGO_CONFIG_STAGES_ID:
    break;
  default:
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  __builtin_memcpy(value, &number, sizeof number);
  if (written)
    *written = sizeof number;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t description, const void *alpha,
                              const void *a, cublasLtMatrixLayout_t layoutA, const void *b,
                              cublasLtMatrixLayout_t layoutB, const void *beta, const void *c,
                              cublasLtMatrixLayout_t layoutC, void *d, cublasLtMatrixLayout_t layoutD,
                              const cublasLtMatmulAlgo_t *algorithm, void *workspace, size_t workspaceBytes,
                              CUstream stream) {
  auto product = std::make_unique<Product>();
  if (!handle || !description || !alpha || !beta || !a || !b || !c || !d || !layoutA || !layoutB ||
      !layoutC || !layoutD || !algorithm ||
      !sizesOf(*description, *layoutA, *layoutB, *layoutC, *layoutD, *product))
    return CUBLAS_STATUS_INVALID_VALUE;
  Algorithm made{};
  __builtin_memcpy(&made, algorithm, sizeof made);
  // The algorithm must be one of the heuristic's, for this product.
  if (made.mark != mark || made.rows != product->rows || made.columns != product->columns ||
      made.depth != product->depth)
    return CUBLAS_STATUS_INVALID_VALUE;
  if (!aligned(a, made.alignment[0] & 0xffffffff) || !aligned(b, made.alignment[0] >> 32) ||
      !aligned(c, made.alignment[1] & 0xffffffff) || !aligned(d, made.alignment[1] >> 32))
    return CUBLAS_STATUS_INVALID_VALUE;
  if (workspaceBytes < made.workspace || (made.workspace && (!workspace || !aligned(workspace, 256))))
    return CUBLAS_STATUS_INVALID_VALUE;
  if (c == d && layoutC->leading != layoutD->leading) // in place means the same places
    return CUBLAS_STATUS_INVALID_VALUE;
  product->alpha = *static_cast<const float *>(alpha);
  product->beta = *static_cast<const float *>(beta);
  product->a = reinterpret_cast<CUdeviceptr>(a);
  product->b = reinterpret_cast<CUdeviceptr>(b);
  product->c = reinterpret_cast<CUdeviceptr>(c);
  product->d = reinterpret_cast<CUdeviceptr>(d);
  product->workspace = reinterpret_cast<CUdeviceptr>(workspace);
  product->workspaceBytes = made.workspace;
  // Every operand inside one live allocation, now and when the product runs.
  if (!cudasimHostAddress(product->a, product->bytesA, 0) ||
      !cudasimHostAddress(product->b, product->bytesB, 0) ||
      !cudasimHostAddress(product->c, product->bytesC, 0) ||
      !cudasimHostAddress(product->d, product->bytesD, 0) ||
      (made.workspace && !cudasimHostAddress(product->workspace, made.workspace, 0)))
    return CUBLAS_STATUS_INVALID_VALUE;
  const int enqueued = cudasimEnqueue(
      stream, [](void *data) { return static_cast<const Product *>(data)->run(); },
      [](void *data) { delete static_cast<Product *>(data); }, product.release());
  return enqueued == CUDA_SUCCESS ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}
