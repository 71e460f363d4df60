// Fuzz entry of the safetensors reader: any bytes either are refused or are a file that survives a round
// trip.
#include "runtime/checkpoint/Safetensors.h"
#include "runtime/checkpoint/SafetensorsWriter.h"
#include "runtime/checkpoint/TensorConversion.h"

#include <cstdlib>
#include <cstring>

using namespace sluice;

namespace {

void require(bool condition) {
  if (!condition)
    std::abort();
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char *>(data), size);
  StatusOr<SafetensorsFile> file = SafetensorsFile::parse(bytes, "input");
  if (!file.ok()) {
    require(file.status().message().size() < 1000);
    return 0;
  }
  std::vector<TensorSource> sources;
  for (const TensorView &view : file->tensors()) {
    require(view.data >= data && view.data + view.bytes <= data + size);
    require(file->find(view.name) == &view);
    // Values may be refused, never read beyond the tensor.
    (void)toFloat32(view, Conversion::Exact);
    (void)toInt32(view);
    sources.push_back({view.name, view.type, view.shape, view.data});
  }
  StatusOr<SafetensorsWriter> writer = SafetensorsWriter::create(sources, file->metadata());
  require(writer.ok());
  std::string copy;
  require(writer
              ->write([&](const void *piece, size_t count) {
                copy.append(static_cast<const char *>(piece), count);
                return absl::OkStatus();
              })
              .ok());
  StatusOr<SafetensorsFile> again = SafetensorsFile::parse(copy, "copy");
  require(again.ok() && again->tensors().size() == file->tensors().size() &&
          again->metadata() == file->metadata());
  for (const TensorView &view : file->tensors()) {
    const TensorView *other = again->find(view.name);
    require(other && other->type == view.type && other->shape == view.shape && other->bytes == view.bytes);
    require(view.bytes == 0 || std::memcmp(other->data, view.data, view.bytes) == 0);
  }
  return 0;
}
