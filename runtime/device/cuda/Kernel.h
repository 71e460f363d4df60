// What a prepared command is on a CUDA device: launches in order, on one stream.
#pragma once

#include "runtime/device/Arguments.h"
#include "runtime/device/cuda/Blas.h"
#include "runtime/device/cuda/Context.h"

#include <cstring>
#include <optional>
#include <type_traits>

namespace sluice::cuda {

/// The routing buffer as kernels take it (codegen/cuda/device/Routing.cuh).
struct RoutingParameter {
  const std::byte *buffer;
  int32_t tokens, topK, experts;
};

/// One kernel launch. Parameters are appended in the kernel's order.
class Launch {
public:
  Launch(std::string kernel, uint64_t gridX, uint64_t gridY, uint64_t gridZ, unsigned threads)
      : kernel(std::move(kernel)), grid{gridX, gridY, gridZ}, threads(threads) {}

  Launch &pointer(const Tensor &tensor) { return value(tensor.data); } // null for an absent tensor
  /// A place in the command's workspace, known when the program is complete.
  Launch &workspace(uint64_t offset) {
    relocations.push_back(places.size());
    return value(offset);
  }
  /// The program's flag for data that a kernel must not follow.
  Launch &damage() {
    damages.push_back(places.size());
    return value(uint64_t{0});
  }
  Launch &integer(int64_t number) { return value(static_cast<int32_t>(number)); }
  Launch &longInteger(int64_t number) { return value(number); }
  Launch &real(double number) { return value(static_cast<float>(number)); }
  template <typename T> Launch &value(const T &parameter) {
    static_assert(std::is_trivially_copyable_v<T>);
    const size_t at = (bytes.size() + alignof(T) - 1) / alignof(T) * alignof(T);
    bytes.resize(at + sizeof(T));
    std::memcpy(bytes.data() + at, &parameter, sizeof(T));
    places.push_back(at);
    return *this;
  }

  std::string kernel;
  uint64_t grid[3];
  unsigned threads;
  std::vector<std::byte> bytes;             // of all parameters
  std::vector<size_t> places;               // where each begins
  std::vector<size_t> relocations, damages; // parameters that are addresses in the workspace, of the flag
  /// The first four parameters are C, A, B and bias of this product, which cuBLASLt may compute instead.
  std::optional<DenseProduct> product;
};

struct PreparedKernel {
  std::vector<Launch> launches;
  uint64_t workspaceBytes = 0;
  std::vector<std::unique_ptr<CudaMemory>> constants; // tables made at prepare

  Launch &launch(std::string kernel, uint64_t x, uint64_t y = 1, uint64_t z = 1, unsigned threads = 256) {
    return launches.emplace_back(std::move(kernel), x, y, z, threads);
  }
  /// A grid-stride launch over `count` elements.
  Launch &elements(std::string kernel, int64_t count) {
    const uint64_t blocks = (static_cast<uint64_t>(count) + 255) / 256;
    return launch(std::move(kernel), blocks < 4096 ? blocks : 4096);
  }
  /// Reserves part of the workspace; returns its offset.
  uint64_t reserve(uint64_t bytes) {
    const uint64_t at = workspaceBytes;
    workspaceBytes = (at + bytes + 255) / 256 * 256;
    return at;
  }
};

struct PrepareContext : CommandContext {
  std::shared_ptr<Context> device;
};

using PrepareFunction = StatusOr<PreparedKernel> (*)(PrepareContext &context);

/// The prepare function of a command kind; null for an unknown kind.
PrepareFunction findKernel(std::string_view kind);

inline int64_t ceilDivide(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

} // namespace sluice::cuda
