// Compiles the file SLUICE_ROWS_FILE twice: for any x86-64 and for AVX2 with FMA. The table takes the second
// where the processor has it. No include guard: each instructions/*.cpp includes this once. The standard
// headers come first, so that none of their functions is compiled for AVX2.
#include "runtime/device/cudasim/execute/Warp.h"
#include "runtime/device/cudasim/instructions/FloatEnvironment.h"
#include "runtime/device/cudasim/program/InstructionTable.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <tuple>
#include <type_traits>
#include <utility>

#define SLUICE_TARGET portable
#include "runtime/device/cudasim/instructions/Rows-inl.h"
#include SLUICE_ROWS_FILE
#undef SLUICE_TARGET

#if defined(__x86_64__)
#define SLUICE_HAS_AVX2_ROWS 1
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,bmi,bmi2,lzcnt,popcnt"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,bmi,bmi2,lzcnt,popcnt")
#endif
#define SLUICE_TARGET avx2
#include "runtime/device/cudasim/instructions/Rows-inl.h"
#include SLUICE_ROWS_FILE
#undef SLUICE_TARGET
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#else
#define SLUICE_HAS_AVX2_ROWS 0
#endif

namespace sluice::cudasim {
namespace {

/// Adds the rows of the best target that this processor has.
void addRowsForThisProcessor(InstructionTable &table) {
#if SLUICE_HAS_AVX2_ROWS
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2"))
    return avx2::addRows(table);
#endif
  portable::addRows(table);
}

} // namespace
} // namespace sluice::cudasim
