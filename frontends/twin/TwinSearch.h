// The exact search for twins: every point of a grid of sizes whose count is within a tolerance of a target.
#pragma once

#include "dialects/interfaces/Counts.h"
#include "runtime/support/Status.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace sluice {

/// One size that may vary: least, least + step, ... up to `most`. `degree` is that of the model's counts as a
/// polynomial in it: a width enters products with itself (2), layers, experts and hidden widths do not (1).
struct TwinVariable {
  std::string name;
  int64_t least = 1, most = 1, step = 1;
  int degree = 1;

  int64_t last() const { return (most - least) / step; } // index of the last value
  int64_t at(int64_t index) const { return least + index * step; }
};

/// A value of every variable, in their order.
using TwinPoint = std::vector<int64_t>;
/// The exact count of the model at a point: builds the model's graph and counts it.
using TwinCount = std::function<StatusOr<Count>(const TwinPoint &)>;

/// A count as a polynomial over a grid, from (degree + 1) graphs a variable. Counts of shapes are polynomials
/// with integer values, so Newton's forward differences over the grid's own points give every value exactly.
class CountPolynomial {
public:
  /// Counts the points 0 .. degree steps from the least value of every variable. Errors: those of `count`.
  static StatusOr<CountPolynomial> fit(const std::vector<TwinVariable> &variables, const TwinCount &count);
  Count at(const TwinPoint &point) const;

private:
  std::vector<TwinVariable> variables;
  std::vector<int> degrees;          // at most as many as the grid has points
  std::vector<__int128> differences; // tensor of forward differences, last variable fastest
};

struct TwinCandidate {
  TwinPoint point;
  Count count = 0;
};

/// The signed distance of a count from the target.
__int128 residualOf(Count count, Count target);
/// Its digits, grouped, with a sign.
std::string residualText(Count count, Count target);
/// The same in percent of the target: "+0.0277 %", or "exact".
std::string residualPercent(Count count, Count target);

/// Nearest first; equally near ones the smaller count first, then the smaller sizes in the variables' order.
struct TwinAnswer {
  std::vector<TwinCandidate> within;  // the best `keep` of them
  uint64_t withinCount = 0;           // all of them
  std::vector<TwinCandidate> nearest; // the best two, within the tolerance or not
};

/// Searches the whole grid. `tolerance` is absolute. Counts must not fall when a variable rises.
TwinAnswer searchTwins(const std::vector<TwinVariable> &variables, const CountPolynomial &count, Count target,
                       Count tolerance, size_t keep);

} // namespace sluice
