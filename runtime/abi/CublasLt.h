// The part of cuBLASLt's binary interface that Sluice calls and its stand-in offers: types, numbers and
// layouts are facts of the published interface (version 13). No toolkit is needed to compile against this.
#pragma once

#include "runtime/abi/CudaDriver.h"

extern "C" {

typedef int cublasStatus_t;
typedef struct cublasLtContext *cublasLtHandle_t;
typedef struct cublasLtMatmulDescription *cublasLtMatmulDesc_t;
typedef struct cublasLtMatrixDescription *cublasLtMatrixLayout_t;
typedef struct cublasLtPreferenceDescription *cublasLtMatmulPreference_t;

struct cublasLtMatmulAlgo_t {
  uint64_t data[8];
};
struct cublasLtMatmulHeuristicResult_t {
  cublasLtMatmulAlgo_t algo;
  size_t workspaceSize;
  cublasStatus_t state;
  float wavesCount;
  int reserved[4];
};

enum : cublasStatus_t {
  CUBLAS_STATUS_SUCCESS = 0,
  CUBLAS_STATUS_NOT_INITIALIZED = 1,
  CUBLAS_STATUS_INVALID_VALUE = 7,
  CUBLAS_STATUS_EXECUTION_FAILED = 13,
  CUBLAS_STATUS_NOT_SUPPORTED = 15,
};

enum : int { CUDA_R_32F = 0, CUBLAS_COMPUTE_32F = 68 };
enum : int { CUBLAS_OP_N = 0, CUBLAS_OP_T = 1 };
enum cublasLtMatmulDescAttribute : int {
  CUBLASLT_MATMUL_DESC_TRANSA = 3,
  CUBLASLT_MATMUL_DESC_TRANSB = 4,
};
enum cublasLtMatmulPreferenceAttribute : int {
  CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES = 1,
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES = 5,
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES = 6,
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES = 7,
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES = 8,
};
enum cublasLtMatmulAlgoConfigAttributes_t : int {
  CUBLASLT_ALGO_CONFIG_ID = 0,
  CUBLASLT_ALGO_CONFIG_TILE_ID = 1,
  CUBLASLT_ALGO_CONFIG_SPLITK_NUM = 2,
  CUBLASLT_ALGO_CONFIG_STAGES_ID = 6,
};

size_t cublasLtGetVersion();

} // extern "C"

// X(function, parameters): the functions that return a status, all that are called.
#define SLUICE_CUBLASLT(X)                                                                                   \
  X(cublasLtCreate, (cublasLtHandle_t * handle))                                                             \
  X(cublasLtDestroy, (cublasLtHandle_t handle))                                                              \
  X(cublasLtMatmulDescCreate, (cublasLtMatmulDesc_t * description, int computeType, int scaleType))          \
  X(cublasLtMatmulDescDestroy, (cublasLtMatmulDesc_t description))                                           \
  X(cublasLtMatmulDescSetAttribute,                                                                          \
    (cublasLtMatmulDesc_t description, cublasLtMatmulDescAttribute attribute, const void *value,             \
     size_t bytes))                                                                                          \
  X(cublasLtMatrixLayoutCreate,                                                                              \
    (cublasLtMatrixLayout_t * layout, int type, uint64_t rows, uint64_t columns, int64_t leading))           \
  X(cublasLtMatrixLayoutDestroy, (cublasLtMatrixLayout_t layout))                                            \
  X(cublasLtMatmulPreferenceCreate, (cublasLtMatmulPreference_t * preference))                               \
  X(cublasLtMatmulPreferenceDestroy, (cublasLtMatmulPreference_t preference))                                \
  X(cublasLtMatmulPreferenceSetAttribute,                                                                    \
    (cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttribute attribute, const void *value,  \
     size_t bytes))                                                                                          \
  X(cublasLtMatmulAlgoGetHeuristic,                                                                          \
    (cublasLtHandle_t handle, cublasLtMatmulDesc_t description, cublasLtMatrixLayout_t a,                    \
     cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,                           \
     cublasLtMatmulPreference_t preference, int wanted, cublasLtMatmulHeuristicResult_t *results,            \
     int *found))                                                                                            \
  X(cublasLtMatmulAlgoConfigGetAttribute,                                                                    \
    (const cublasLtMatmulAlgo_t *algorithm, cublasLtMatmulAlgoConfigAttributes_t attribute, void *value,     \
     size_t bytes, size_t *written))                                                                         \
  X(cublasLtMatmul,                                                                                          \
    (cublasLtHandle_t handle, cublasLtMatmulDesc_t description, const void *alpha, const void *a,            \
     cublasLtMatrixLayout_t layoutA, const void *b, cublasLtMatrixLayout_t layoutB, const void *beta,        \
     const void *c, cublasLtMatrixLayout_t layoutC, void *d, cublasLtMatrixLayout_t layoutD,                 \
     const cublasLtMatmulAlgo_t *algorithm, void *workspace, size_t workspaceBytes, CUstream stream))

#define SLUICE_CUBLASLT_DECLARE(function, parameters) extern "C" cublasStatus_t function parameters;
SLUICE_CUBLASLT(SLUICE_CUBLASLT_DECLARE)
#undef SLUICE_CUBLASLT_DECLARE
