#define SLUICE_ROWS_FILE "runtime/device/cudasim/instructions/Integer-inl.h"
#include "runtime/device/cudasim/instructions/ForEachTarget-inl.h"

namespace sluice::cudasim {

void addIntegerRows(InstructionTable &table) {
  addRowsForThisProcessor(table);
}

} // namespace sluice::cudasim
