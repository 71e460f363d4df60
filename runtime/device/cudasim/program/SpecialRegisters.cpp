#include "runtime/device/cudasim/program/SpecialRegisters.h"

namespace sluice::cudasim {

std::optional<SpecialRegister> findSpecialRegister(std::string_view name) {
  struct Row {
    std::string_view name;
    Special special;
    uint8_t bytes;
  };
  static constexpr Row rows[] = {
      {"%tid.x", Special::TidX, 4},
      {"%tid.y", Special::TidY, 4},
      {"%tid.z", Special::TidZ, 4},
      {"%ntid.x", Special::NtidX, 4},
      {"%ntid.y", Special::NtidY, 4},
      {"%ntid.z", Special::NtidZ, 4},
      {"%ctaid.x", Special::CtaidX, 4},
      {"%ctaid.y", Special::CtaidY, 4},
      {"%ctaid.z", Special::CtaidZ, 4},
      {"%nctaid.x", Special::NctaidX, 4},
      {"%nctaid.y", Special::NctaidY, 4},
      {"%nctaid.z", Special::NctaidZ, 4},
      {"%laneid", Special::Lane, 4},
      {"%warpid", Special::WarpIndex, 4},
      {"%nwarpid", Special::WarpCount, 4},
      {"%smid", Special::Multiprocessor, 4},
      {"%nsmid", Special::MultiprocessorCount, 4},
      {"%gridid", Special::GridId, 8},
      {"%lanemask_eq", Special::LanesEqual, 4},
      {"%lanemask_lt", Special::LanesBelow, 4},
      {"%lanemask_le", Special::LanesUpTo, 4},
      {"%lanemask_gt", Special::LanesAbove, 4},
      {"%lanemask_ge", Special::LanesFrom, 4},
      {"%dynamic_smem_size", Special::DynamicSharedBytes, 4},
      {"%total_smem_size", Special::TotalSharedBytes, 4},
  };
  for (const Row &row : rows)
    if (row.name == name)
      return SpecialRegister{row.special, row.bytes};
  return std::nullopt;
}

} // namespace sluice::cudasim
