#define SLUICE_ROWS_FILE "runtime/device/cudasim/instructions/Float-inl.h"
#include "runtime/device/cudasim/instructions/ForEachTarget-inl.h"

namespace sluice::cudasim {

void addFloatRows(InstructionTable &table) {
  addRowsForThisProcessor(table);
}

} // namespace sluice::cudasim
