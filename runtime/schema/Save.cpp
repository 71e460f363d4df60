// Writing an executable file.
#include "runtime/schema/ExecutableDescription.h"
#include "runtime/schema/executable_generated.h"
#include "runtime/support/Hash.h"

#include <cstring>

namespace sluice {
namespace {

namespace fb = schema;
using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;

constexpr uint64_t segmentAlignment = 64;

uint64_t alignUp(uint64_t value) {
  return (value + segmentAlignment - 1) / segmentAlignment * segmentAlignment;
}

/// Turns the structures into FlatBuffers tables. `segments` are placed later: the buffer's own length moves
/// them, so the file is built twice with equal sizes.
class Writer {
  Offset<flatbuffers::String> text(const std::string &value) { return builder.CreateSharedString(value); }

  template <typename Items, typename Make> auto vectorOf(const Items &items, Make make) {
    std::vector<decltype(make(items[0]))> offsets;
    offsets.reserve(items.size());
    for (const auto &item : items)
      offsets.push_back(make(item));
    return builder.CreateVector(offsets);
  }

  auto texts(const std::vector<std::string> &items) {
    return vectorOf(items, [&](auto &item) { return text(item); });
  }

public:
  explicit Writer(const ExecutableDescription &description) : description(description) {}

  /// The size-prefixed buffer, with segments laid out from `firstSegment` on.
  std::string build(uint64_t firstSegment) {
    builder.Clear();
    nextSegment = firstSegment;
    auto bindings = vectorOf(description.bindings, [&](auto &item) { return binding(item); });
    auto targets = texts(description.targets);
    auto arenas = vectorOf(description.arenas, [&](auto &item) {
      return fb::CreateArena(builder, text(item.name), item.bytes,
                             static_cast<fb::ArenaClass>(item.lifetime));
    });
    auto tensors = vectorOf(description.tensors, [&](auto &item) { return tensor(item); });
    auto derived = vectorOf(description.derived, [&](auto &item) {
      return fb::CreateDerivedState(builder, text(item.name), text(item.parameter), text(item.kind));
    });
    auto entries = vectorOf(description.entries, [&](auto &item) { return entry(item); });
    auto kernels = vectorOf(description.kernels, [&](auto &item) { return kernel(item); });
    fb::Digest zero;
    auto root = fb::CreateExecutable(builder, description.formatVersion, text(description.producer), &zero,
                                     text(description.model), bindings, targets, text(description.training),
                                     text(description.modelConfig), arenas, tensors, derived, entries,
                                     kernels, text(description.ledger));
    fb::FinishSizePrefixedExecutableBuffer(builder, root);
    return {reinterpret_cast<const char *>(builder.GetBufferPointer()), builder.GetSize()};
  }

private:
  Offset<fb::Binding> binding(const DimensionBinding &item) {
    return fb::CreateBinding(builder, text(item.name), item.value);
  }

  Offset<fb::Operand> operand(const Operand &item) {
    return fb::CreateOperand(builder, static_cast<fb::ElementType>(item.type),
                             builder.CreateVector(item.shape), item.arena, item.offset);
  }

  Offset<fb::Tensor> tensor(const StateTensor &item) {
    return fb::CreateTensor(builder, text(item.name), static_cast<fb::TensorRole>(item.role),
                            text(item.parameter), static_cast<fb::ElementType>(item.place.type),
                            builder.CreateVector(item.place.shape), item.place.arena, item.place.offset,
                            text(item.checkpointName), item.decay, item.mask.empty() ? 0 : text(item.mask),
                            item.mask.empty() ? 0 : builder.CreateVector(item.wholeShape));
  }

  Offset<fb::Attribute> attribute(const CommandAttribute &item) {
    auto name = text(item.name);
    if (const int64_t *integer = std::get_if<int64_t>(&item.value))
      return fb::CreateAttribute(builder, name, fb::AttributeKind::Integer, *integer);
    if (const double *number = std::get_if<double>(&item.value))
      return fb::CreateAttribute(builder, name, fb::AttributeKind::Number, 0, *number);
    auto value = text(std::get<std::string>(item.value));
    return fb::CreateAttribute(builder, name, fb::AttributeKind::Text, 0, 0, value);
  }

  Offset<fb::NamedOperand> named(const NamedOperand &item) {
    auto place = operand(item.operand);
    return fb::CreateNamedOperand(builder, text(item.name), place);
  }

  Offset<fb::EntryPoint> entry(const EntryPoint &item) {
    auto bindings = vectorOf(item.bindings, [&](auto &dimension) { return binding(dimension); });
    auto inputs = vectorOf(item.inputs, [&](auto &input) { return named(input); });
    auto outputs = vectorOf(item.outputs, [&](auto &output) { return named(output); });
    std::vector<Offset<fb::Command>> commands;
    for (size_t index = 0; index < item.commands.size(); ++index) {
      const Command &command = item.commands[index];
      auto reads = vectorOf(command.inputs, [&](auto &place) { return operand(place); });
      auto writes = vectorOf(command.outputs, [&](auto &place) { return operand(place); });
      auto attributes = vectorOf(command.attributes, [&](auto &one) { return attribute(one); });
      auto dependencies = builder.CreateVector(command.dependencies);
      auto flops = text(index < item.flops.size() ? item.flops[index] : std::string());
      commands.push_back(fb::CreateCommand(builder, text(command.kind), text(command.origin), reads, writes,
                                           attributes, dependencies, flops));
    }
    return fb::CreateEntryPoint(builder, text(item.name), bindings, inputs, outputs,
                                builder.CreateVector(commands));
  }

  fb::Segment segment(const std::string &bytes) {
    fb::Segment made(nextSegment, bytes.size());
    nextSegment = alignUp(nextSegment + bytes.size());
    return made;
  }

  Offset<fb::KernelImage> kernel(const KernelImageDescription &item) {
    auto names = texts(item.kernels);
    auto target = text(item.target);
    fb::Segment image = segment(item.image), source = segment(item.source);
    return fb::CreateKernelImage(builder, target, &image, &source, names);
  }

  const ExecutableDescription &description;
  FlatBufferBuilder builder;
  uint64_t nextSegment = 0;
};

} // namespace

std::string serializeExecutable(const ExecutableDescription &description) {
  Writer writer(description);
  // Offsets never reach 0 in a real file, so every pass stores the field and has the same length.
  uint64_t firstSegment = alignUp(writer.build(segmentAlignment).size());
  std::string file = writer.build(firstSegment);
  for (const KernelImageDescription &kernel : description.kernels)
    for (const std::string *segment : {&kernel.image, &kernel.source}) {
      file.resize(alignUp(file.size()));
      file += *segment;
    }
  Sha256 hash;
  hash.update(file);
  auto digest = hash.finish();
  const auto *root = flatbuffers::GetSizePrefixedRoot<fb::Executable>(file.data());
  auto place = reinterpret_cast<const char *>(root->file_sha256()) - file.data();
  std::memcpy(file.data() + place, digest.data(), digest.size());
  return file;
}

} // namespace sluice
