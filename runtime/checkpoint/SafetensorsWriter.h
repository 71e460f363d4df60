// Writer of safetensors: canonical order, streamed, so that no second copy of the tensors is ever needed.
#pragma once

#include "runtime/checkpoint/TensorType.h"
#include "runtime/support/Status.h"

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace sluice {

/// A tensor to be written: row-major, little-endian. Its bytes are either in memory (`data`, borrowed until
/// the write returns) or made piece by piece by `fill`, which must fill `size` bytes that start `offset`
/// bytes into the tensor.
struct TensorSource {
  std::string name;
  TensorType type = TensorType::F32;
  std::vector<int64_t> shape;
  const void *data = nullptr;
  std::function<Status(uint64_t offset, void *destination, size_t size)> fill;
};

/// Takes the next bytes of a file.
using ByteSink = std::function<Status(const void *bytes, size_t size)>;

using SafetensorsMetadata = std::map<std::string, std::string>;
/// What other libraries want to find in a file of weights.
inline const SafetensorsMetadata defaultSafetensorsMetadata = {{"format", "pt"}};

/// A safetensors file in preparation: the header is made and checked once, the data is streamed.
class SafetensorsWriter {
public:
  /// Orders the tensors (element types from the most to the least aligned, then names) and makes the header,
  /// padded with spaces to a multiple of 8. Errors: a name given twice or reserved, a negative dimension, a
  /// size beyond 64 bits, a tensor without bytes, a header over the format's limit, text that is not UTF-8.
  static StatusOr<SafetensorsWriter> create(std::vector<TensorSource> tensors,
                                            const SafetensorsMetadata &metadata = defaultSafetensorsMetadata);

  /// The size of the whole file in bytes.
  uint64_t size() const { return total; }
  /// Sends the whole file to `sink`. Fails with the sink's or a `fill`'s error.
  Status write(const ByteSink &sink) const;

private:
  std::string head; // the 8 bytes of length and the padded JSON
  std::vector<TensorSource> sources;
  std::vector<uint64_t> sizes; // bytes of each source
  uint64_t total = 0;
};

} // namespace sluice
