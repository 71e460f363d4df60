#define SLUICE_ROWS_FILE "runtime/device/cudasim/instructions/Compare-inl.h"
#include "runtime/device/cudasim/instructions/ForEachTarget-inl.h"

namespace sluice::cudasim {

void addCompareRows(InstructionTable &table) {
  addRowsForThisProcessor(table);
}

} // namespace sluice::cudasim
