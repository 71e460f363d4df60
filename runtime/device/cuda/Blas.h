// Dense float32 products through cuBLASLt, opened by name: the real library or its strict stand-in beside the
// simulated driver. Without it the device uses its own kernel.
#pragma once

#include "runtime/abi/CublasLt.h"
#include "runtime/support/Status.h"

#include <memory>
#include <string>

namespace sluice::cuda {

/// C[m, n] (+)= A B: A by the strides of its rows and of the reduced dimension, B by those of its columns.
struct DenseProduct {
  int64_t m, n, k, rowA, depthA, columnB, depthB;
  bool accumulate;
};

/// A product whose algorithm is chosen: descriptions, layouts and the algorithm, made once.
class BlasProduct;

class Blas {
public:
  /// Opens `library`. Error (failure): it is not there, lacks a function or does not start.
  static StatusOr<std::shared_ptr<const Blas>> open(const std::string &library);
  ~Blas();
  Blas(const Blas &) = delete;
  Blas &operator=(const Blas &) = delete;

  /// Bytes that a product's algorithm may want of workspace.
  static constexpr uint64_t workspaceLimit = uint64_t{32} << 20;

  /// Chooses an algorithm for operands at these places. Null where cuBLASLt has none for the shape, strides
  /// or alignment, or nothing is to be multiplied.
  std::shared_ptr<const BlasProduct> plan(const DenseProduct &product, CUdeviceptr c, CUdeviceptr a,
                                          CUdeviceptr b) const;
  static uint64_t workspaceBytes(const BlasProduct &product);
  /// "38 x 24, depth 40: cuBLASLt 130100, algorithm 21, tile 15, stages 4, split 1, workspace 4096 B".
  std::string describe(const BlasProduct &product) const;
  /// `workspace` has workspaceBytes(product) bytes, 256-byte aligned; products on one stream may share it.
  /// Puts the product into the stream. Error (failure): the library's code.
  Status enqueue(const BlasProduct &product, CUdeviceptr workspace, CUstream stream,
                 std::string_view what) const;

#define SLUICE_CUBLASLT_MEMBER(function, parameters) decltype(&::function) function = nullptr;
  SLUICE_CUBLASLT(SLUICE_CUBLASLT_MEMBER)
#undef SLUICE_CUBLASLT_MEMBER

private:
  Blas() = default;
  cublasLtHandle_t handle = nullptr;
  size_t version = 0;
};

} // namespace sluice::cuda
