// Reading an executable file: nothing is believed before the verifier and the hash agree.
#include "runtime/schema/ExecutableDescription.h"
#include "runtime/schema/executable_generated.h"
#include "runtime/support/File.h"
#include "runtime/support/Hash.h"

namespace sluice {
namespace {

namespace fb = schema;

// Bounds on what a table may make us copy: tables may share vectors, so a small file could ask for a lot.
constexpr size_t maximumRank = 8;
constexpr size_t maximumName = 4096;
constexpr flatbuffers::uoffset_t maximumDepth = 16, maximumTables = 20'000'000;

/// Turns the verified tables into the structures. The first problem is kept in `problem`; later reads give
/// empty values.
class Reader {
public:
  Reader(std::string_view file, uint64_t bufferEnd) : file(file), bufferEnd(bufferEnd) {}

  ExecutableDescription read(const fb::Executable &root) {
    ExecutableDescription result;
    result.formatVersion = root.format_version();
    result.producer = name(root.producer(), "producer");
    result.model = name(root.model(), "model");
    result.bindings = bindings(root.bindings());
    result.targets = names(root.targets(), "target");
    result.training = text(root.training());
    result.modelConfig = text(root.model_config());
    each(root.arenas(), [&](const fb::Arena &arena) {
      result.arenas.push_back({name(arena.name(), "arena"), arena.bytes(),
                               enumerator<ArenaClass>(arena.lifetime(), fb::ArenaClass::MAX, "arena class")});
    });
    each(root.tensors(), [&](const fb::Tensor &tensor) {
      StateTensor state;
      state.name = name(tensor.name(), "tensor");
      state.role = enumerator<TensorRole>(tensor.role(), fb::TensorRole::MAX, "tensor role");
      state.parameter = name(tensor.parameter(), "parameter");
      state.place = place(tensor.type(), tensor.shape(), tensor.arena(), tensor.offset());
      state.checkpointName = name(tensor.checkpoint_name(), "checkpoint name");
      state.decay = tensor.decay();
      state.mask = name(tensor.mask(), "mask");
      if (tensor.whole_shape())
        state.wholeShape.assign(tensor.whole_shape()->begin(), tensor.whole_shape()->end());
      result.tensors.push_back(std::move(state));
    });
    each(root.derived(), [&](const fb::DerivedState &derived) {
      result.derived.push_back({name(derived.name(), "derived state"), name(derived.parameter(), "parameter"),
                                name(derived.kind(), "kind of derived state")});
    });
    each(root.entries(), [&](const fb::EntryPoint &item) { result.entries.push_back(entry(item)); });
    each(root.kernels(), [&](const fb::KernelImage &kernel) {
      result.kernels.push_back(
          {name(kernel.target(), "kernel target"), segment(kernel.image(), "kernel image"),
           segment(kernel.source(), "kernel source"), names(kernel.kernels(), "kernel")});
    });
    result.ledger = text(root.ledger());
    return result;
  }

  std::string problem;

private:
  void fail(std::string what) {
    if (problem.empty())
      problem = std::move(what);
  }

  template <typename Vector, typename Action> void each(const Vector *items, Action action) {
    if (!items)
      return;
    for (const auto *item : *items) {
      if (!problem.empty())
        return;
      action(*item);
    }
  }

  static std::string text(const flatbuffers::String *value) { return value ? value->str() : std::string(); }

  std::string name(const flatbuffers::String *value, std::string_view what) {
    if (value && value->size() > maximumName) {
      fail(concat("expected at most ", maximumName, " bytes as name of a ", what, ", found ", value->size()));
      return {};
    }
    return text(value);
  }

  std::vector<std::string> names(const flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>> *items,
                                 std::string_view what) {
    std::vector<std::string> result;
    if (items)
      for (const auto *item : *items)
        result.push_back(name(item, what));
    return result;
  }

  std::vector<DimensionBinding> bindings(const flatbuffers::Vector<flatbuffers::Offset<fb::Binding>> *items) {
    std::vector<DimensionBinding> result;
    each(items,
         [&](const fb::Binding &item) { result.push_back({name(item.name(), "dimension"), item.value()}); });
    return result;
  }

  template <typename Enum, typename Stored>
  Enum enumerator(Stored value, Stored maximum, std::string_view what) {
    if (value > maximum)
      fail(concat("expected a ", what, " up to ", static_cast<int>(maximum), ", found ",
                  static_cast<int>(value)));
    return static_cast<Enum>(value);
  }

  Operand place(fb::ElementType type, const flatbuffers::Vector<int64_t> *shape, int32_t arena,
                uint64_t offset) {
    Operand result;
    result.type = enumerator<ElementType>(type, fb::ElementType::MAX, "element type");
    if (shape && shape->size() > maximumRank)
      fail(concat("expected at most ", maximumRank, " dimensions of a tensor, found ", shape->size()));
    else if (shape)
      result.shape.assign(shape->begin(), shape->end());
    result.arena = arena;
    result.offset = offset;
    return result;
  }

  Operand operand(const fb::Operand &item) {
    return place(item.type(), item.shape(), item.arena(), item.offset());
  }

  EntryPoint entry(const fb::EntryPoint &item) {
    EntryPoint result;
    result.name = name(item.name(), "entry point");
    result.bindings = bindings(item.bindings());
    each(item.inputs(), [&](const fb::NamedOperand &input) {
      result.inputs.push_back({name(input.name(), "input"), operand(*input.operand())});
    });
    each(item.outputs(), [&](const fb::NamedOperand &output) {
      result.outputs.push_back({name(output.name(), "output"), operand(*output.operand())});
    });
    each(item.commands(), [&](const fb::Command &stored) {
      Command command;
      command.kind = name(stored.kind(), "command kind");
      command.origin = name(stored.origin(), "origin");
      each(stored.inputs(), [&](const fb::Operand &input) { command.inputs.push_back(operand(input)); });
      each(stored.outputs(), [&](const fb::Operand &output) { command.outputs.push_back(operand(output)); });
      each(stored.attributes(),
           [&](const fb::Attribute &one) { command.attributes.push_back(attribute(one)); });
      if (stored.dependencies()) {
        // Dependencies are on earlier commands, each at most once.
        if (stored.dependencies()->size() > result.commands.size())
          fail(concat("entry point '", result.name, "', command ", result.commands.size(),
                      ": expected at most ", result.commands.size(), " dependencies, found ",
                      stored.dependencies()->size()));
        else
          command.dependencies.assign(stored.dependencies()->begin(), stored.dependencies()->end());
      }
      result.commands.push_back(std::move(command));
      result.flops.push_back(name(stored.flops(), "number of operations"));
    });
    return result;
  }

  CommandAttribute attribute(const fb::Attribute &item) {
    CommandAttribute result;
    result.name = name(item.name(), "attribute");
    switch (item.kind()) {
    case fb::AttributeKind::Integer:
      result.value = item.integer();
      break;
    case fb::AttributeKind::Number:
      result.value = item.number();
      break;
    case fb::AttributeKind::Text:
      result.value = name(item.text(), "text of an attribute");
      break;
    default:
      fail(concat("expected an attribute kind up to 2, found ", static_cast<int>(item.kind())));
    }
    return result;
  }

  std::string segment(const fb::Segment *item, std::string_view what) {
    if (!item || item->bytes() == 0)
      return {};
    if (item->offset() % 64 != 0 || item->offset() < bufferEnd || item->offset() > file.size() ||
        item->bytes() > file.size() - item->offset()) {
      fail(concat("expected the ", what, " inside the file's ", file.size(),
                  " bytes at a multiple of 64, found ", item->bytes(), " bytes at ", item->offset()));
      return {};
    }
    return std::string(file.substr(item->offset(), item->bytes()));
  }

  std::string_view file;
  uint64_t bufferEnd;
};

/// SHA-256 of `bytes` with the 32 bytes at `place` taken as zero.
std::string hashWithout(std::string_view bytes, size_t place) {
  static constexpr char zeros[32] = {};
  Sha256 hash;
  hash.update(bytes.substr(0, place));
  hash.update(zeros, sizeof zeros);
  hash.update(bytes.substr(place + sizeof zeros));
  return toHex(hash.finish());
}

} // namespace

StatusOr<Executable> parseExecutable(std::string bytes, const std::string &place) {
  constexpr size_t smallest = 16; // size, root offset, identifier, and at least one word
  const char *hint = "; copy the file again or compile the model again";
  if (bytes.size() < smallest)
    return badInputError(place, ": expected an executable (.slx), found ", bytes.size(), " bytes", hint);
  if (!fb::SizePrefixedExecutableBufferHasIdentifier(bytes.data()))
    return badInputError(place, ": expected an executable (identifier SLX1), found a file of another kind",
                         "; compile a model with 'sluice compile'");
  uint64_t prefix = flatbuffers::GetPrefixedSize(reinterpret_cast<const uint8_t *>(bytes.data()));
  uint64_t bufferEnd = prefix + sizeof(flatbuffers::uoffset_t);
  if (bufferEnd > bytes.size())
    return badInputError(place, ": expected a header of ", bufferEnd, " bytes, found a file of ",
                         bytes.size(), " (cut short?)", hint);
  flatbuffers::Verifier verifier(reinterpret_cast<const uint8_t *>(bytes.data()), bufferEnd, maximumDepth,
                                 maximumTables);
  if (bufferEnd >= FLATBUFFERS_MAX_BUFFER_SIZE || !fb::VerifySizePrefixedExecutableBuffer(verifier))
    return badInputError(place, ": expected a well-formed executable, found a damaged structure", hint);
  const fb::Executable &root = *fb::GetSizePrefixedExecutable(bytes.data());
  if (!root.file_sha256())
    return badInputError(place, ": expected a hash of the file, found none", hint);
  std::string stored(reinterpret_cast<const char *>(root.file_sha256()), 32);
  size_t digestPlace = static_cast<size_t>(reinterpret_cast<const char *>(root.file_sha256()) - bytes.data());
  std::string computed = hashWithout(bytes, digestPlace);
  std::array<uint8_t, 32> storedBytes;
  std::copy(stored.begin(), stored.end(), storedBytes.begin());
  if (toHex(storedBytes) != computed)
    return badInputError(place, ": expected contents with SHA-256 ", toHex(storedBytes), ", found ", computed,
                         " (damaged)", hint);
  if (root.format_version() != executableFormatVersion)
    return badInputError(place, ": expected format version ", executableFormatVersion, ", found ",
                         root.format_version(), " (written by ",
                         root.producer() ? root.producer()->str() : "?",
                         "); compile the model with this version of Sluice");
  Executable result;
  Reader reader(bytes, bufferEnd);
  result.description = reader.read(root);
  if (!reader.problem.empty())
    return badInputError(place, ": ", reader.problem, hint);
  SLUICE_RETURN_IF_ERROR(checkExecutable(result.description, place));
  result.sha256 = std::move(computed);
  result.bytes = std::move(bytes);
  return result;
}

StatusOr<Executable> loadExecutable(const std::string &path) {
  StatusOr<std::string> bytes = readFile(path);
  if (!bytes.ok())
    return usageError(concat("expected an executable (.slx): ", std::string(bytes.status().message())));
  return parseExecutable(std::move(*bytes), path);
}

} // namespace sluice
