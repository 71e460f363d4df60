// The rules of an executable that its format cannot express.
#include "runtime/schema/ExecutableDescription.h"

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

namespace sluice {

std::string_view tensorRoleName(TensorRole role) {
  switch (role) {
  case TensorRole::Parameter:
    return "parameter";
  case TensorRole::Gradient:
    return "gradient";
  case TensorRole::ExpAvg:
    return "exp_avg";
  case TensorRole::ExpAvgSq:
    return "exp_avg_sq";
  case TensorRole::State:
    return "state";
  }
  return "unknown";
}

std::string_view arenaClassName(ArenaClass lifetime) {
  switch (lifetime) {
  case ArenaClass::Parameters:
    return "parameters";
  case ArenaClass::Gradients:
    return "gradients";
  case ArenaClass::Optimizer:
    return "optimizer";
  case ArenaClass::Activations:
    return "activations";
  case ArenaClass::Io:
    return "io";
  }
  return "unknown";
}

const EntryPoint *ExecutableDescription::entry(std::string_view name) const {
  for (const EntryPoint &entry : entries)
    if (entry.name == name)
      return &entry;
  return nullptr;
}

int64_t StateTensor::elements() const {
  int64_t count = 1;
  for (int64_t size : shape())
    count *= size;
  return count;
}

uint64_t StateTensor::bytes() const {
  return static_cast<uint64_t>(elements() * elementSize(place.type));
}

const StateTensor *ExecutableDescription::tensor(std::string_view name) const {
  for (const StateTensor &tensor : tensors)
    if (tensor.name == name)
      return &tensor;
  return nullptr;
}

namespace {

constexpr uint64_t maximumArena = uint64_t{1} << 48;

/// Names seen so far; a second use is an error.
class UniqueNames {
public:
  bool add(const std::string &name) { return !name.empty() && seen.insert(name).second; }

private:
  absl::flat_hash_set<std::string> seen;
};

class Checker {
public:
  Checker(const ExecutableDescription &description, const std::string &place)
      : description(description), place(place) {}

  Status run() {
    if (description.model.empty())
      return error("expected the model's name, found none");
    SLUICE_RETURN_IF_ERROR(json(description.training, "training"));
    SLUICE_RETURN_IF_ERROR(json(description.modelConfig, "model_config"));
    SLUICE_RETURN_IF_ERROR(json(description.ledger, "ledger"));
    SLUICE_RETURN_IF_ERROR(bindings(description.bindings, "the executable"));
    SLUICE_RETURN_IF_ERROR(arenas());
    SLUICE_RETURN_IF_ERROR(tensors());
    SLUICE_RETURN_IF_ERROR(overlaps());
    SLUICE_RETURN_IF_ERROR(derived());
    UniqueNames names;
    for (const EntryPoint &entry : description.entries) {
      if (!names.add(entry.name))
        return error("expected unique names of entry points, found '", entry.name, "' twice or empty");
      SLUICE_RETURN_IF_ERROR(checkEntry(entry));
    }
    for (const KernelImageDescription &kernel : description.kernels)
      if (kernel.target.empty() || kernel.image.empty())
        return error("expected a target and code in every kernel image, found '", kernel.target, "' with ",
                     kernel.image.size(), " bytes");
    return absl::OkStatus();
  }

private:
  template <typename... Parts> Status error(const Parts &...parts) const {
    return badInputError(place, ": ", concat(parts...), "; compile the model again");
  }

  Status json(const std::string &text, std::string_view what) const {
    if (text.empty())
      return absl::OkStatus();
    auto parsed = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!parsed.is_object())
      return error("expected a JSON object as ", what, ", found something else");
    return absl::OkStatus();
  }

  Status bindings(const std::vector<DimensionBinding> &items, const std::string &owner) const {
    UniqueNames names;
    for (const DimensionBinding &item : items)
      if (!names.add(item.name) || item.value < 1)
        return error(owner, ": expected unique dimensions of at least 1, found '", item.name,
                     "' = ", item.value);
    return absl::OkStatus();
  }

  Status arenas() const {
    UniqueNames names;
    uint64_t total = 0;
    for (const ArenaDescription &arena : description.arenas) {
      if (!names.add(arena.name))
        return error("expected unique names of arenas, found '", arena.name, "' twice or empty");
      if (arena.bytes > maximumArena || (total += arena.bytes) > maximumArena)
        return error("arena '", arena.name, "': expected at most 2^48 bytes in all, found ", arena.bytes,
                     " more");
      if (static_cast<uint8_t>(arena.lifetime) > static_cast<uint8_t>(ArenaClass::Io))
        return error("arena '", arena.name, "': expected a known class, found ",
                     static_cast<int>(arena.lifetime));
    }
    return absl::OkStatus();
  }

  /// A tensor lies inside its arena, aligned, and its size does not overflow.
  Status operand(const Operand &item, const std::string &owner) const {
    if (static_cast<uint8_t>(item.type) > static_cast<uint8_t>(ElementType::U8))
      return error(owner, ": expected a known element type, found ", static_cast<int>(item.type));
    uint64_t bytes = static_cast<uint64_t>(elementSize(item.type));
    bool empty = false;
    for (int64_t size : item.shape) {
      if (size < 0)
        return error(owner, ": expected sizes of at least 0, found ", size);
      if (size == 0)
        empty = true;
      else if (bytes > maximumArena / static_cast<uint64_t>(size))
        return error(owner, ": expected a tensor of at most 2^48 bytes, found a larger shape");
      else
        bytes *= static_cast<uint64_t>(size);
    }
    if (empty)
      bytes = 0;
    if (item.arena < 0 || static_cast<size_t>(item.arena) >= description.arenas.size())
      return error(owner, ": expected an arena below ", description.arenas.size(), ", found ", item.arena);
    uint64_t room = description.arenas[item.arena].bytes;
    if (item.offset % 64 != 0)
      return error(owner, ": expected an offset that is a multiple of 64, found ", item.offset);
    if (item.offset > room || bytes > room - item.offset)
      return error(owner, ": expected a place inside the ", room, " bytes of arena '",
                   description.arenas[item.arena].name, "', found ", bytes, " bytes at ", item.offset);
    return absl::OkStatus();
  }

  /// A tensor in kept form names a mask with one bit for each element of the whole tensor.
  Status wholeShape(const StateTensor &tensor, const std::string &owner) const {
    if (tensor.mask.empty())
      return absl::OkStatus();
    uint64_t elements = 1;
    for (int64_t size : tensor.wholeShape) {
      if (size < 1 || elements > maximumArena / static_cast<uint64_t>(size) / 8)
        return error(owner, ": expected positive sizes of the whole tensor, at most 2^48 bytes, found ",
                     size);
      elements *= static_cast<uint64_t>(size);
    }
    if (tensor.place.type != ElementType::F32 || tensor.place.elements() > static_cast<int64_t>(elements))
      return error(owner, ": expected at most the ", elements, " elements of the whole tensor in f32, found ",
                   tensor.place.elements());
    const StateTensor *mask = description.tensor(tensor.mask);
    if (!mask || mask->place.type != ElementType::U8 || mask->place.bytes() != (elements + 63) / 64 * 8)
      return error(owner, ": expected a mask of ", elements, " weights, found '", tensor.mask, "'");
    return absl::OkStatus();
  }

  Status tensors() {
    UniqueNames names, checkpointNames;
    for (const StateTensor &tensor : description.tensors) {
      std::string owner = concat("tensor '", tensor.name, "'");
      if (!names.add(tensor.name))
        return error("expected unique names of tensors, found '", tensor.name, "' twice or empty");
      if (static_cast<uint8_t>(tensor.role) > static_cast<uint8_t>(TensorRole::State))
        return error(owner, ": expected a known role, found ", static_cast<int>(tensor.role));
      SLUICE_RETURN_IF_ERROR(operand(tensor.place, owner));
      if (!tensor.checkpointName.empty() && !checkpointNames.add(tensor.checkpointName))
        return error(owner, ": expected unique checkpoint names, found '", tensor.checkpointName, "' twice");
      SLUICE_RETURN_IF_ERROR(wholeShape(tensor, owner));
      if (tensor.checkpointName.find("{expert}") != std::string::npos && tensor.shape().empty())
        return error(owner, ": expected a dimension to split for '", tensor.checkpointName,
                     "', found a scalar");
      if (tensor.role == TensorRole::Parameter && !parameters.emplace(tensor.name, &tensor).second)
        return error(owner, ": named twice");
    }
    for (const StateTensor &tensor : description.tensors) {
      if (tensor.role == TensorRole::Parameter || tensor.role == TensorRole::State)
        continue;
      auto parameter = parameters.find(tensor.parameter);
      if (parameter == parameters.end())
        return error("tensor '", tensor.name, "': expected the name of a parameter, found '",
                     tensor.parameter, "'");
      if (parameter->second->shape() != tensor.shape())
        return error("tensor '", tensor.name, "': expected the shape of its parameter '", tensor.parameter,
                     "', found another");
    }
    return absl::OkStatus();
  }

  /// State tensors are apart from each other: what is saved is what is computed.
  Status overlaps() const {
    std::vector<const StateTensor *> sorted;
    for (const StateTensor &tensor : description.tensors)
      if (tensor.place.bytes() > 0)
        sorted.push_back(&tensor);
    std::sort(sorted.begin(), sorted.end(), [](const StateTensor *a, const StateTensor *b) {
      return std::pair(a->place.arena, a->place.offset) < std::pair(b->place.arena, b->place.offset);
    });
    for (size_t index = 1; index < sorted.size(); ++index) {
      const StateTensor &before = *sorted[index - 1], &after = *sorted[index];
      if (before.place.arena == after.place.arena &&
          before.place.offset + before.place.bytes() > after.place.offset)
        return error("expected state tensors apart from each other, found '", before.name, "' and '",
                     after.name, "' overlapping");
    }
    return absl::OkStatus();
  }

  Status derived() const {
    UniqueNames names;
    for (const DerivedStateDescription &item : description.derived) {
      if (!names.add(item.name))
        return error("expected unique names of derived state, found '", item.name, "' twice or empty");
      if (!parameters.contains(item.parameter))
        return error("derived state '", item.name, "': expected the name of a parameter, found '",
                     item.parameter, "'");
    }
    return absl::OkStatus();
  }

  Status checkEntry(const EntryPoint &entry) const {
    std::string owner = concat("entry point '", entry.name, "'");
    SLUICE_RETURN_IF_ERROR(bindings(entry.bindings, owner));
    for (const auto *list : {&entry.inputs, &entry.outputs}) {
      UniqueNames names;
      for (const NamedOperand &item : *list) {
        if (!names.add(item.name))
          return error(owner, ": expected unique names of inputs and of outputs, found '", item.name,
                       "' twice or empty");
        SLUICE_RETURN_IF_ERROR(operand(item.operand, concat(owner, ", '", item.name, "'")));
      }
    }
    if (!entry.flops.empty() && entry.flops.size() != entry.commands.size())
      return error(owner, ": expected a count for each of ", entry.commands.size(), " commands, found ",
                   entry.flops.size());
    for (const std::string &flops : entry.flops)
      if (flops.find_first_not_of("0123456789") != std::string::npos)
        return error(owner, ": expected decimal counts of operations, found '", flops, "'");
    for (size_t index = 0; index < entry.commands.size(); ++index)
      SLUICE_RETURN_IF_ERROR(command(entry.commands[index], index, owner));
    return absl::OkStatus();
  }

  Status command(const Command &item, size_t index, const std::string &entry) const {
    std::string owner = concat(entry, ", command ", index, " (", item.kind, " of '", item.origin, "')");
    if (item.kind.empty())
      return error(owner, ": expected a kind, found none");
    for (const auto *list : {&item.inputs, &item.outputs})
      for (const Operand &place : *list)
        SLUICE_RETURN_IF_ERROR(operand(place, owner));
    for (size_t one = 0; one < item.attributes.size(); ++one)
      for (size_t other = 0; other < one; ++other)
        if (item.attributes[one].name == item.attributes[other].name)
          return error(owner, ": expected unique attributes, found '", item.attributes[one].name, "' twice");
    for (uint32_t dependency : item.dependencies)
      if (dependency >= index)
        return error(owner, ": expected dependencies on earlier commands, found ", dependency);
    return absl::OkStatus();
  }

  const ExecutableDescription &description;
  const std::string &place;
  absl::flat_hash_map<std::string, const StateTensor *> parameters;
};

} // namespace

Status checkExecutable(const ExecutableDescription &description, const std::string &place) {
  return Checker(description, place).run();
}

} // namespace sluice
