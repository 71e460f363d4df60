#include "runtime/device/MaskArguments.h"

#include "runtime/support/Philox.h"

namespace sluice {
namespace {

/// Seed, step and amount; the age and the dense gradient where there are any.
void takeInputs(Arguments &arguments, MaskUpdate &update, int64_t weights, bool hasAge, bool byGradient) {
  for (auto [index, place] :
       {std::pair<size_t, Tensor *>{4, &update.seed}, {5, &update.step}, {6, &update.amount}}) {
    *place = arguments.input(index, ElementType::I64);
    arguments.elements(*place, 1, "seed, step and amount");
  }
  arguments.require(arguments.inputCount() == 7 + (hasAge ? 1 : 0) + (byGradient ? 1 : 0),
                    "growth by gradient takes a dense gradient, and no other growth does");
  size_t next = 7;
  if (hasAge) {
    update.age = arguments.input(next++);
    arguments.elements(update.age, update.places[0].elements, "age");
    arguments.require(arguments.output(4).data == update.age.data, "age is updated in place");
  }
  if (byGradient) {
    update.gradient = arguments.input(next);
    arguments.elements(update.gradient, weights, "dense_gradient");
  }
}

} // namespace

Tensor maskInput(Arguments &arguments, size_t index, int64_t weights) {
  const Tensor mask = arguments.input(index, ElementType::U8);
  arguments.elements(mask, maskBytes(weights), "a mask (one bit a weight, up to a multiple of 8 bytes)");
  return mask;
}

StatusOr<MaskShape> maskShape(Arguments &arguments) {
  std::vector<int64_t> shape;
  for (double size : arguments.numbers("shape"))
    shape.push_back(static_cast<int64_t>(size));
  arguments.require(shape.size() == 2 || shape.size() == 3, "shape must be [out, in] or [experts, out, in]");
  SLUICE_RETURN_IF_ERROR(arguments.status());
  const int64_t rows = shape[shape.size() - 2], columns = shape.back(),
                matrices = shape.size() == 3 ? shape[0] : 1;
  constexpr int64_t most = int64_t{1} << 31;
  arguments.require(rows > 0 && columns > 0 && matrices > 0 && rows < most / columns &&
                        matrices < most / columns,
                    "shape must be of positive sizes, at most 2^31 weights a matrix");
  SLUICE_RETURN_IF_ERROR(arguments.status());
  const int64_t kept = arguments.integer("kept", 1, rows * columns);
  const std::optional<MaskPattern> pattern =
      MaskPattern::read(arguments.text("pattern"), rows, columns, kept);
  arguments.require(pattern.has_value(), "pattern must be unstructured, n:m or block:RxC and fit the shape");
  SLUICE_RETURN_IF_ERROR(arguments.status());
  return MaskShape{matrices, *pattern};
}

StatusOr<MaskUpdate> maskUpdate(Arguments &arguments) {
  arguments.inputs(7, 9);
  const bool hasAge = arguments.flag("has_age");
  arguments.outputs(hasAge ? 5 : 4);
  MaskUpdate update;
  SLUICE_RETURN_IF_ERROR(arguments.status());
  for (size_t k = 0; k < 3; ++k) {
    update.places[k] = arguments.input(1 + k);
    arguments.require(update.places[k].elements == update.places[0].elements &&
                          arguments.output(1 + k).data == update.places[k].data,
                      "weight, exp_avg and exp_avg_sq are of one size and updated in place");
  }
  SLUICE_ASSIGN_OR_RETURN(const MaskShape shape, maskShape(arguments));
  const int64_t weights = shape.matrices * shape.pattern.size();
  update.keptForm = arguments.flag("kept_only");
  arguments.elements(update.places[0], update.keptForm ? shape.matrices * shape.pattern.kept : weights,
                     "the weights");
  update.mask = maskInput(arguments, 0, weights);
  arguments.require(arguments.output(0, ElementType::U8).data == update.mask.data,
                    "the mask is updated in place");
  const std::string drop = arguments.text("drop"), grow = arguments.text("grow"),
                    stream = arguments.text("stream");
  arguments.require(grow == "random" || grow == "gradient" || grow == "none",
                    "grow must be random, gradient or none");
  update.isSigned = drop == "signed", update.isSoft = drop == "soft", update.prunes = grow == "none";
  arguments.require(drop == "magnitude" ||
                        (!update.prunes && (update.isSoft || (update.isSigned && !shape.pattern.isBlocks()))),
                    "drop must be magnitude or, where weights grow, soft or (not with blocks) signed");
  arguments.require(!update.keptForm || !update.prunes, "pruning needs whole weights");
  SLUICE_RETURN_IF_ERROR(arguments.status());
  takeInputs(arguments, update, weights, hasAge, grow == "gradient");
  update.stream = streamKey(stream), update.dropStream = streamKey(stream + ".drop");
  update.shape = shape;
  update.target = arguments.integer("target", 1, shape.pattern.kept);
  update.restart = static_cast<float>(arguments.number("restart"));
  SLUICE_RETURN_IF_ERROR(arguments.status());
  return update;
}

} // namespace sluice
