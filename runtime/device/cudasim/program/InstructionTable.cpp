#include "runtime/device/cudasim/program/InstructionTable.h"

namespace sluice::cudasim {

const InstructionTable &InstructionTable::get() {
  static const InstructionTable table = [] {
    InstructionTable rows;
    addIntegerRows(rows);
    addFloatRows(rows);
    addCompareRows(rows);
    addConversionRows(rows);
    addMoveRows(rows);
    addMemoryRows(rows);
    addAtomicRows(rows);
    addWarpRows(rows);
    addControlRows(rows);
    return rows;
  }();
  return table;
}

} // namespace sluice::cudasim
