#include "runtime/device/LookupArguments.h"

namespace sluice {
namespace {

/// Numbers in a row of a table with at least one dimension.
int64_t widthOf(const Tensor &table) {
  int64_t width = 1;
  for (int64_t i = 1; i < table.rank(); ++i)
    width *= table.dim(i);
  return width;
}

} // namespace

LookupArguments lookupArguments(Arguments &arguments, size_t idsIndex, size_t tableIndex) {
  arguments.inputs(2);
  arguments.outputs(1);
  LookupArguments lookup{arguments.input(idsIndex, ElementType::I32), arguments.anyInput(tableIndex),
                         arguments.anyOutput(0)};
  const Tensor &table = lookup.table;
  arguments.require(table.rank() >= 1, "the table must have at least one dimension");
  arguments.require(table.type == lookup.y.type && elementSize(table.type) == 4,
                    "table and result must have one 4-byte type");
  if (!arguments.ok())
    return lookup;
  lookup.rows = table.dim(0), lookup.width = widthOf(table);
  arguments.elements(lookup.y, lookup.ids.elements * lookup.width, "the result");
  return lookup;
}

LookupGradientArguments lookupGradientArguments(Arguments &arguments) {
  arguments.inputs(2);
  arguments.outputs(1);
  LookupGradientArguments gradient{arguments.input(0, ElementType::I32), arguments.input(1),
                                   arguments.output(0)};
  gradient.accumulate = arguments.flag("accumulate");
  arguments.require(gradient.dtable.rank() >= 1, "the table's gradient must have at least one dimension");
  if (!arguments.ok())
    return gradient;
  gradient.rows = gradient.dtable.dim(0), gradient.width = widthOf(gradient.dtable);
  arguments.elements(gradient.dy, gradient.ids.elements * gradient.width, "dy");
  return gradient;
}

} // namespace sluice
