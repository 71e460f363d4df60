// Reader of one safetensors file: every rule of the format is checked before a tensor is handed out.
#pragma once

#include "runtime/checkpoint/TensorType.h"
#include "runtime/support/File.h"
#include "runtime/support/Status.h"

#include "absl/container/flat_hash_map.h"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

/// One tensor of a file: row-major, little-endian. `data` points into the file's map, lives as long as the
/// file and may be unaligned in files of other writers.
struct TensorView {
  std::string name;
  TensorType type = TensorType::F32;
  std::vector<int64_t> shape; // rank 0 is one element; a dimension may be 0
  const uint8_t *data = nullptr;
  uint64_t bytes = 0;

  int64_t elements() const;
};

/// A checked safetensors file. Layout: 8 bytes little-endian header length N (at most 100,000,000), N bytes
/// of JSON, data. Rules (huggingface/safetensors, safetensors/src/tensor.rs): the JSON starts with '{', has
/// no duplicate key, maps names to {dtype, shape, data_offsets} and "__metadata__" to texts; the spans,
/// sorted, start at 0, leave no hole, do not overlap and end with the file; a span is exactly elements x
/// width.
class SafetensorsFile {
public:
  /// Maps and checks a file. Errors: the system's; BadInput naming file, tensor, expectation and finding;
  /// Unimplemented for an element type that the format does not list.
  static StatusOr<SafetensorsFile> open(const std::string &path);
  /// Checks bytes in memory, which must outlive the result. `place` names them in messages.
  static StatusOr<SafetensorsFile> parse(std::string_view bytes, std::string place);

  /// The tensor, or null. Valid as long as this object (also after it is moved).
  const TensorView *find(std::string_view name) const;
  /// All tensors in the order of their data.
  const std::vector<TensorView> &tensors() const { return views; }
  /// "__metadata__", empty when absent.
  const std::map<std::string, std::string> &metadata() const { return texts; }
  const std::string &path() const { return place; }

private:
  MappedFile map;
  std::string place;
  std::vector<TensorView> views;
  absl::flat_hash_map<std::string, size_t> index;
  std::map<std::string, std::string> texts;
};

/// The most bytes a header may have.
inline constexpr uint64_t maxSafetensorsHeader = 100'000'000;

} // namespace sluice
