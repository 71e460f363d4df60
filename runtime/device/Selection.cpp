#include "runtime/device/Selection.h"

namespace sluice {

Selection readSelection(Arguments &arguments, int64_t experts, int64_t topK) {
  Selection selection;
  selection.groups = arguments.integerOr("groups", 1);
  selection.kept = arguments.integerOr("groups_kept", 1);
  selection.sumOfBestTwo = arguments.integerOr("group_score", 0) == 1;
  arguments.require(selection.groups >= 1 && selection.groups <= Selection::mostGroups &&
                        experts % std::max<int64_t>(selection.groups, 1) == 0,
                    "groups must divide the number of experts, and be at most 256");
  arguments.require(selection.kept >= 1 && selection.kept <= selection.groups,
                    "groups_kept must be 1 to groups");
  if (!arguments.ok())
    return selection;
  const int64_t size = experts / selection.groups;
  arguments.require(topK <= selection.kept * size,
                    "top_k must not exceed the number of experts in the kept groups");
  arguments.require(selection.groups == 1 || !selection.sumOfBestTwo || size >= 2,
                    "a group scored by its two best experts must have two");
  if (arguments.inputCount() == 2) {
    selection.bias = arguments.input(1);
    arguments.elements(selection.bias, experts, "bias");
  }
  return selection;
}

} // namespace sluice
