// Exact counts of scalar operations, by class. Integers of 128 bits: a training run of 1e26 FLOPs is normal.
#pragma once

#include <string>

namespace sluice {

using Count = unsigned __int128;

/// Decimal digits of `count`, without grouping.
std::string toDecimal(Count count);

/// FLOPs by class (docs/accounting.md). `contraction` counts a multiply-add as two.
struct ClassCounts {
  Count contraction = 0;
  Count add = 0; // additions and subtractions
  Count multiply = 0;
  Count divide = 0;         // divisions and square roots
  Count transcendental = 0; // exp, log, tanh, sin, cos
  Count compare = 0;        // comparisons, maxima, selections
  Count index = 0;          // integer and index work

  ClassCounts &operator+=(const ClassCounts &other) {
    contraction += other.contraction, add += other.add, multiply += other.multiply, divide += other.divide;
    transcendental += other.transcendental, compare += other.compare, index += other.index;
    return *this;
  }
  /// All classes times `factor`.
  ClassCounts times(Count factor) const {
    return {contraction * factor,    add * factor,     multiply * factor, divide * factor,
            transcendental * factor, compare * factor, index * factor};
  }
  bool operator==(const ClassCounts &) const = default;
};

/// What one op costs, in the three readings that the ledger keeps apart.
struct OpCounts {
  ClassCounts ideal;     // useful work
  ClassCounts dense;     // no mask, every expert, full attention
  ClassCounts recompute; // work that an adjoint does again to save memory; not part of ideal

  OpCounts &operator+=(const OpCounts &other) {
    ideal += other.ideal, dense += other.dense, recompute += other.recompute;
    return *this;
  }
  /// An op whose ideal and dense counts agree.
  static OpCounts same(const ClassCounts &counts) { return {counts, counts, {}}; }
};

} // namespace sluice
