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

inline int64_t ceilDivide(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

/// Blocks along one axis of a grid, and as a function of what, for `inspect --kernels`.
struct Blocks {
  uint64_t count = 1;
  std::string rule = "1";

  Blocks() = default;
  Blocks(uint64_t count, std::string rule) : count(count), rule(std::move(rule)) {}

  /// One block for each `perBlock` of `things`, of which there are `extent`.
  static Blocks each(int64_t extent, int64_t perBlock, const std::string &things) {
    return {static_cast<uint64_t>(ceilDivide(extent, perBlock)),
            perBlock == 1 ? things : concat(things, "/", perBlock)};
  }
  Blocks plus(int64_t more, const std::string &things) const {
    return {count + static_cast<uint64_t>(more), concat(rule, " + ", things)};
  }
  Blocks atMost(uint64_t limit) const {
    return {count < limit ? count : limit, concat("min(", rule, ", ", limit, ")")};
  }
};

/// One kernel launch. Parameters are appended in the kernel's order.
class Launch {
public:
  Launch(std::string kernel, const Blocks &x, const Blocks &y, const Blocks &z, unsigned threads)
      : kernel(std::move(kernel)), grid{x.count, y.count, z.count}, rules{x.rule, y.rule, z.rule},
        threads(threads) {}

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
  std::string rules[3]; // what the grid is a function of
  unsigned threads;
  std::vector<std::byte> bytes;             // of all parameters
  std::vector<size_t> places;               // where each begins
  std::vector<size_t> relocations, damages; // parameters that are addresses in the workspace, of the flag
  /// The first four parameters are C, A, B and bias of this product, which cuBLASLt may compute instead.
  std::optional<DenseProduct> product;
  /// Makes one launch of this and of the next command's, if that changes no result; null: never.
  bool (*join)(Launch &launch, const Launch &next) = nullptr;
};

struct PreparedKernel {
  std::vector<Launch> launches;
  uint64_t workspaceBytes = 0;
  std::vector<std::unique_ptr<CudaMemory>> constants; // tables made at prepare

  Launch &launch(std::string kernel, const Blocks &x, const Blocks &y = {}, const Blocks &z = {},
                 unsigned threads = 256) {
    return launches.emplace_back(std::move(kernel), x, y, z, threads);
  }
  Launch &launch(std::string kernel, const Blocks &x, unsigned threads) {
    return launch(std::move(kernel), x, {}, {}, threads);
  }
  /// A grid-stride launch over `count` elements, so many a thread and turn.
  Launch &elements(std::string kernel, int64_t count, int64_t perThread = 1) {
    return launch(std::move(kernel), Blocks::each(count, 256 * perThread, "elements").atMost(4096));
  }
  /// One warp a row, in turns if there are many rows.
  Launch &rows(std::string kernel, int64_t count, const std::string &things) {
    return launch(std::move(kernel), Blocks::each(count, 8, things).atMost(4096));
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

} // namespace sluice::cuda
