#include "runtime/checkpoint/SafetensorsWriter.h"

#include "runtime/checkpoint/Safetensors.h"
#include "runtime/checkpoint/StrictJson.h"

#include <algorithm>

namespace sluice {
namespace {

/// The piece in which `fill` is asked for bytes.
constexpr size_t pieceBytes = size_t(1) << 20;

StatusOr<uint64_t> sourceBytes(const TensorSource &source) {
  uint64_t bits = tensorTypeBits(source.type);
  for (int64_t dimension : source.shape)
    if (dimension < 0 || __builtin_mul_overflow(bits, static_cast<uint64_t>(dimension), &bits))
      return failure("cannot write tensor ", inQuotes(source.name),
                     ": expected dimensions of at least 0 and a size within "
                     "64 bits, found the dimension ",
                     dimension);
  if (bits % 8 != 0)
    return failure("cannot write tensor ", inQuotes(source.name), ": its ", bits,
                   " bits do not fill whole bytes");
  if (bits != 0 && !source.data && !source.fill)
    return failure("cannot write tensor ", inQuotes(source.name),
                   ": it was given neither data nor a function that fills");
  return bits / 8;
}

} // namespace

StatusOr<SafetensorsWriter> SafetensorsWriter::create(std::vector<TensorSource> tensors,
                                                      const SafetensorsMetadata &metadata) {
  std::sort(tensors.begin(), tensors.end(), [](const TensorSource &a, const TensorSource &b) {
    return a.type != b.type ? a.type > b.type : a.name < b.name;
  });

  SafetensorsWriter writer;
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty())
    header["__metadata__"] = metadata;
  // The ordered map searches linearly, so names are checked in a sorted list and pushed without a search.
  std::vector<std::string> names;
  uint64_t offset = 0;
  for (const TensorSource &tensor : tensors) {
    SLUICE_ASSIGN_OR_RETURN(uint64_t size, sourceBytes(tensor));
    uint64_t end = 0;
    if (__builtin_add_overflow(offset, size, &end))
      return failure("cannot write tensor ", inQuotes(tensor.name), ": the file would leave 64 bits");
    nlohmann::ordered_json entry;
    entry["dtype"] = std::string(tensorTypeName(tensor.type));
    entry["shape"] = tensor.shape;
    entry["data_offsets"] = {offset, end};
    auto &members = header.get_ref<nlohmann::ordered_json::object_t &>();
    members.std::vector<nlohmann::ordered_json::object_t::value_type>::emplace_back(tensor.name,
                                                                                    std::move(entry));
    names.push_back(tensor.name);
    writer.sizes.push_back(size);
    offset = end;
  }
  names.push_back("__metadata__");
  std::sort(names.begin(), names.end());
  if (auto twice = std::adjacent_find(names.begin(), names.end()); twice != names.end())
    return failure("cannot write tensor ", inQuotes(*twice), ": the name is ",
                   *twice == "__metadata__" ? "reserved" : "given twice", " in one file");

  std::string text;
  try {
    text = header.dump();
  } catch (const nlohmann::json::exception &) {
    return failure("cannot write a safetensors file: a tensor's name or the metadata is not UTF-8");
  }
  text.append((8 - text.size() % 8) % 8, ' ');
  if (text.size() > maxSafetensorsHeader)
    return failure("cannot write a safetensors file: its header needs ", text.size(),
                   " bytes, the format allows ", maxSafetensorsHeader, "; write fewer tensors into one file");
  for (int i = 0; i < 8; ++i)
    writer.head.push_back(static_cast<char>(static_cast<uint64_t>(text.size()) >> (8 * i)));
  writer.head += text;
  if (__builtin_add_overflow(offset, writer.head.size(), &writer.total))
    return failure("cannot write a safetensors file: it would leave 64 bits");
  writer.sources = std::move(tensors);
  return writer;
}

Status SafetensorsWriter::write(const ByteSink &sink) const {
  SLUICE_RETURN_IF_ERROR(sink(head.data(), head.size()));
  std::string piece;
  for (size_t i = 0; i < sources.size(); ++i) {
    const TensorSource &source = sources[i];
    if (source.data) {
      if (sizes[i] > 0)
        SLUICE_RETURN_IF_ERROR(sink(source.data, sizes[i]));
      continue;
    }
    for (uint64_t offset = 0; offset < sizes[i]; offset += piece.size()) {
      piece.resize(std::min<uint64_t>(pieceBytes, sizes[i] - offset));
      SLUICE_RETURN_IF_ERROR(source.fill(offset, piece.data(), piece.size()));
      SLUICE_RETURN_IF_ERROR(sink(piece.data(), piece.size()));
    }
  }
  return absl::OkStatus();
}

} // namespace sluice
