#include "runtime/train/Masks.h"

#include "runtime/support/Philox.h"

#include <bit>
#include <charconv>
#include <cstring>

namespace sluice {
namespace {

/// "4,16,32": the sizes of an attribute.
std::vector<int64_t> sizesOf(const std::string &text) {
  std::vector<int64_t> sizes;
  for (const char *at = text.data(), *end = at + text.size(); at < end;) {
    int64_t size = 0;
    auto [next, error] = std::from_chars(at, end, size);
    if (error != std::errc() || size < 1)
      return {};
    sizes.push_back(size);
    at = next < end && *next == ',' ? next + 1 : end;
  }
  return sizes;
}

/// The command that updates the mask, or null.
const Command *updateOf(const ExecutableDescription &model, const std::string &name) {
  if (const EntryPoint *update = model.entry("update_topology"))
    for (const Command &command : update->commands)
      if (command.kind == "update_mask")
        if (StatusOr<std::string> stream = command.text("stream"); stream.ok() && *stream == name)
          return &command;
  return nullptr;
}

StatusOr<ModelMask> maskOf(const ExecutableDescription &model, const Command &draw) {
  ModelMask mask;
  SLUICE_ASSIGN_OR_RETURN(mask.name, draw.text("stream"));
  const std::string &name = mask.name;
  SLUICE_ASSIGN_OR_RETURN(const std::string shape, draw.text("shape"));
  SLUICE_ASSIGN_OR_RETURN(mask.patternName, draw.text("pattern"));
  SLUICE_ASSIGN_OR_RETURN(const int64_t kept, draw.integer("kept"));
  const std::vector<int64_t> sizes = sizesOf(shape);
  auto wrong = [&](const char *what) {
    return badInputError("the executable's mask '", name, "': expected ", what, "; compile the model again");
  };
  mask.mask = model.tensor(name);
  mask.weights = mask.mask ? model.tensor(mask.mask->parameter) : nullptr;
  if (!mask.weights)
    return wrong("a state of that name that belongs to a parameter, found none");
  mask.isStacked = sizes.size() == 3, mask.matrices = mask.isStacked ? sizes[0] : 1;
  if (sizes != mask.weights->shape() || (sizes.size() != 2 && !mask.isStacked))
    return wrong("the shape of its parameter");
  auto pattern = MaskPattern::read(mask.patternName, sizes[sizes.size() - 2], sizes.back(), kept);
  if (!pattern)
    return wrong("a pattern that fits its shape");
  mask.pattern = *pattern, mask.target = pattern->kept;
  if (static_cast<int64_t>(mask.mask->place.bytes()) != maskBytes(mask.weightCount()))
    return wrong("one bit a weight");
  for (const StateTensor &tensor : model.tensors)
    if (tensor.role == TensorRole::State && tensor.parameter == mask.weights->name &&
        tensor.place.type == ElementType::F32)
      mask.age = &tensor;
  if (const Command *update = updateOf(model, name)) {
    mask.target = update->integerOr("target", mask.target);
    mask.restart = update->numberOr("restart", 0);
  }
  if (const EntryPoint *accumulate = model.entry("accumulate"))
    for (const Command &command : accumulate->commands)
      if (StatusOr<int64_t> most = command.integer("skip_at_most");
          most.ok() && !command.inputs.empty() && command.inputs.back().arena == mask.mask->place.arena &&
          command.inputs.back().offset == mask.mask->place.offset)
        mask.skipAtMost.push_back(*most);
  return mask;
}

/// "expert 2 of 'layers.0.moe.w_up.mask'".
std::string matrixName(const ModelMask &mask, int64_t matrix) {
  return mask.isStacked ? concat("expert ", matrix, " of '", mask.name, "'") : concat("'", mask.name, "'");
}

Status checkMatrix(const ModelMask &mask, std::string_view bits, int64_t matrix, int64_t kept,
                   const std::string &place) {
  const MaskPattern &pattern = mask.pattern;
  const int64_t first = matrix * pattern.size();
  if (pattern.isGroups()) {
    // Each group keeps as many as the others: their number is the matrix's over the number of groups.
    const int64_t each = kept / (pattern.size() / pattern.group);
    for (int64_t begin = 0; begin < pattern.size(); begin += pattern.group) {
      int64_t found = 0;
      for (int64_t i = begin; i < begin + pattern.group; ++i)
        found += keepsWeight(bits, first + i);
      if (found != each)
        return badInputError(place, ": ", matrixName(mask, matrix), ": expected ", each,
                             " kept weights of each ", pattern.group, " neighbours, found ", found, " from [",
                             begin / pattern.columns, ", ", begin % pattern.columns, "] on");
    }
  }
  for (int64_t unit = 0; pattern.isBlocks() && unit < pattern.units(); ++unit) {
    const int64_t at = pattern.firstWeight(unit);
    for (int64_t i = 0; i < pattern.blockSize(); ++i)
      if (keepsWeight(bits, first + at + i / pattern.blockColumns * pattern.columns +
                                i % pattern.blockColumns) != keepsWeight(bits, first + at))
        return badInputError(place, ": ", matrixName(mask, matrix), ": expected whole blocks of ",
                             pattern.blockRows, " x ", pattern.blockColumns, ", found one in part at [",
                             at / pattern.columns, ", ", at % pattern.columns, "]");
  }
  return absl::OkStatus();
}

} // namespace

MaskChange::Layer MaskChange::total() const {
  Layer sum;
  for (const Layer &layer : layers)
    sum.kept += layer.kept, sum.grown += layer.grown, sum.dropped += layer.dropped,
        sum.products += layer.products, sum.skipping += layer.skipping;
  return sum;
}

void countChange(std::string_view before, std::string_view after, MaskChange::Layer &layer) {
  layer.kept = layer.grown = layer.dropped = 0;
  for (size_t i = 0; i < after.size(); ++i) {
    const auto was = static_cast<uint8_t>(before[i]), is = static_cast<uint8_t>(after[i]);
    layer.kept += std::popcount(is);
    layer.grown += std::popcount(static_cast<uint8_t>(is & ~was));
    layer.dropped += std::popcount(static_cast<uint8_t>(was & ~is));
  }
}

StatusOr<std::vector<ModelMask>> modelMasks(const ExecutableDescription &model) {
  std::vector<ModelMask> masks;
  if (const EntryPoint *init = model.entry("init"))
    for (const Command &command : init->commands)
      if (command.kind == "random_mask") {
        SLUICE_ASSIGN_OR_RETURN(ModelMask mask, maskOf(model, command));
        masks.push_back(std::move(mask));
      }
  return masks;
}

std::string startMask(const ModelMask &mask, int64_t seed) {
  std::string bits(static_cast<size_t>(maskBytes(mask.weightCount())), '\0');
  std::vector<uint64_t> candidates(static_cast<size_t>(mask.pattern.size()));
  drawMask(mask.pattern, mask.matrices, seed, streamKey(mask.name), reinterpret_cast<uint8_t *>(bits.data()),
           candidates.data());
  return bits;
}

Status checkMaskBits(const ModelMask &mask, std::string_view bits, const std::string &place) {
  const auto expected = static_cast<size_t>(maskBytes(mask.weightCount()));
  if (bits.size() != expected)
    return badInputError(place, ": '", mask.name, "': expected ", expected,
                         " bytes, one bit a weight, found ", bits.size());
  int64_t all = 0;
  for (int64_t matrix = 0; matrix < mask.matrices; ++matrix) {
    int64_t kept = 0;
    for (int64_t i = 0; i < mask.pattern.size(); ++i)
      kept += keepsWeight(bits, matrix * mask.pattern.size() + i);
    all += kept;
    const bool fits = kept >= mask.target && kept <= mask.pattern.kept && kept * (matrix + 1) == all;
    if (!fits)
      return badInputError(place, ": ", matrixName(mask, matrix), ": expected ",
                           mask.target == mask.pattern.kept ? concat(mask.target)
                                                            : concat(mask.target, " to ", mask.pattern.kept),
                           " kept weights of ", mask.pattern.size(),
                           mask.matrices > 1 ? ", the same in each matrix" : "", ", found ", kept,
                           "; is this a mask of this model and density?");
    SLUICE_RETURN_IF_ERROR(checkMatrix(mask, bits, matrix, kept, place));
  }
  int64_t set = 0;
  for (char byte : bits)
    set += std::popcount(static_cast<uint8_t>(byte));
  if (set != all)
    return badInputError(place, ": '", mask.name, "': expected no bit beyond the last of ",
                         mask.weightCount(), " weights, found ", set - all);
  return absl::OkStatus();
}

Status checkZerosOutside(const ModelMask &mask, std::string_view bits, const std::string &tensor,
                         const std::function<double(int64_t)> &value, const std::string &place) {
  int64_t wrong = 0, first = 0;
  for (int64_t i = 0; i < mask.weightCount(); ++i)
    if (!keepsWeight(bits, i) && value(i) != 0 && wrong++ == 0)
      first = i;
  if (wrong == 0)
    return absl::OkStatus();
  const int64_t inside = first % mask.pattern.size();
  return badInputError(place, ": '", tensor, "': expected zeros where '", mask.name,
                       "' does not keep, found ", wrong, " other values, the first at [",
                       mask.isStacked ? concat(first / mask.pattern.size(), ", ") : "",
                       inside / mask.pattern.columns, ", ", inside % mask.pattern.columns,
                       "]; are these the weights of this mask? Weights of a dense model need a spec without "
                       "`sparsity`");
}

Status checkMasks(const Session &session, const std::string &place) {
  SLUICE_ASSIGN_OR_RETURN(std::vector<ModelMask> masks, modelMasks(session.description()));
  for (const ModelMask &mask : masks) {
    SLUICE_ASSIGN_OR_RETURN(const std::string bits, session.readState(mask.name));
    SLUICE_RETURN_IF_ERROR(checkMaskBits(mask, bits, place));
  }
  return absl::OkStatus();
}

Status checkMaskedStates(const Session &session, const std::string &place) {
  SLUICE_RETURN_IF_ERROR(checkMasks(session, place));
  SLUICE_ASSIGN_OR_RETURN(std::vector<ModelMask> masks, modelMasks(session.description()));
  for (const ModelMask &mask : masks) {
    SLUICE_ASSIGN_OR_RETURN(const std::string bits, session.readState(mask.name));
    for (const StateTensor &tensor : session.description().tensors)
      if (&tensor == mask.weights || &tensor == mask.age ||
          ((tensor.role == TensorRole::ExpAvg || tensor.role == TensorRole::ExpAvgSq) &&
           tensor.parameter == mask.weights->name)) {
        SLUICE_ASSIGN_OR_RETURN(const std::string values, session.readState(tensor.name));
        auto value = [&](int64_t i) {
          float number;
          std::memcpy(&number, values.data() + i * 4, 4);
          return static_cast<double>(number);
        };
        SLUICE_RETURN_IF_ERROR(checkZerosOutside(mask, bits, tensor.name, value, place));
      }
  }
  return absl::OkStatus();
}

} // namespace sluice
