#include "frontends/twin/TwinSearch.h"

#include "dialects/ledger/Ledger.h"

#include "absl/strings/str_format.h"

#include <algorithm>

namespace sluice {
namespace {

/// The absolute distance.
Count distance(Count count, Count target) {
  return count > target ? count - target : target - count;
}

/// Collects candidates, best first, without keeping more than it must.
class Best {
public:
  Best(Count target, size_t keep) : target(target), keep(keep) {}

  void add(TwinCandidate candidate) {
    list.push_back(std::move(candidate));
    if (list.size() >= 4 * keep + 64)
      trim();
  }
  std::vector<TwinCandidate> take() {
    trim();
    return std::move(list);
  }

private:
  void trim() {
    std::sort(list.begin(), list.end(), [&](const TwinCandidate &a, const TwinCandidate &b) {
      Count left = distance(a.count, target), right = distance(b.count, target);
      if (left != right)
        return left < right;
      return a.count != b.count ? a.count < b.count : a.point < b.point;
    });
    // The two values around the target are seen twice where a range is short.
    list.erase(std::unique(list.begin(), list.end(),
                           [](const TwinCandidate &a, const TwinCandidate &b) { return a.point == b.point; }),
               list.end());
    if (list.size() > keep)
      list.resize(keep);
  }

  Count target;
  size_t keep;
  std::vector<TwinCandidate> list;
};

/// Walks the grid: all values of the outer variables, and of the last one the stretch within the tolerance,
/// found by bisection.
class Search {
public:
  Search(const std::vector<TwinVariable> &variables, const CountPolynomial &count, Count target,
         Count tolerance, size_t keep)
      : variables(variables), count(count), target(target), tolerance(tolerance), within(target, keep),
        nearest(target, 2), point(variables.size()) {
    for (size_t i = 0; i < variables.size(); ++i)
      point[i] = variables[i].least;
  }

  TwinAnswer run() {
    walk(0);
    return {within.take(), found, nearest.take()};
  }

private:
  /// Returns false when even the least sizes of the inner variables are beyond the tolerance.
  bool walk(size_t depth) {
    const TwinVariable &variable = variables[depth];
    if (depth + 1 == variables.size())
      return walkLast();
    bool any = false;
    for (int64_t index = 0; index <= variable.last(); ++index) {
      point[depth] = variable.at(index);
      if (!walk(depth + 1))
        break; // larger values cost more
      any = true;
    }
    point[depth] = variable.least;
    return any;
  }

  bool walkLast() {
    const TwinVariable &variable = variables.back();
    auto at = [&](int64_t index) {
      point.back() = variable.at(index);
      return count.at(point);
    };
    auto firstNotBelow = [&](Count bound) { // index of the first value whose count is at least `bound`
      int64_t low = 0, high = variable.last() + 1;
      while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (at(middle) < bound)
          low = middle + 1;
        else
          high = middle;
      }
      return low;
    };
    const int64_t above = firstNotBelow(target);
    for (int64_t index : {above - 2, above - 1, above, above + 1})
      if (index >= 0 && index <= variable.last()) {
        Count value = at(index);
        nearest.add({point, value});
      }
    const int64_t begin = firstNotBelow(target > tolerance ? target - tolerance : 0);
    for (int64_t index = begin; index <= variable.last(); ++index) {
      Count value = at(index);
      if (value > target + tolerance)
        break;
      within.add({point, value});
      ++found;
    }
    bool affordable = at(0) <= target + tolerance;
    point.back() = variable.least;
    return affordable;
  }

  const std::vector<TwinVariable> &variables;
  const CountPolynomial &count;
  Count target, tolerance;
  Best within, nearest;
  uint64_t found = 0;
  TwinPoint point;
};

} // namespace

StatusOr<CountPolynomial> CountPolynomial::fit(const std::vector<TwinVariable> &variables,
                                               const TwinCount &count) {
  CountPolynomial polynomial;
  polynomial.variables = variables;
  size_t size = 1;
  for (const TwinVariable &variable : variables) {
    polynomial.degrees.push_back(static_cast<int>(std::min<int64_t>(variable.degree, variable.last())));
    size *= static_cast<size_t>(polynomial.degrees.back()) + 1;
  }
  for (size_t flat = 0; flat < size; ++flat) {
    TwinPoint point(variables.size());
    size_t rest = flat;
    for (size_t i = variables.size(); i-- > 0; rest /= static_cast<size_t>(polynomial.degrees[i]) + 1)
      point[i] =
          variables[i].at(static_cast<int64_t>(rest % (static_cast<size_t>(polynomial.degrees[i]) + 1)));
    SLUICE_ASSIGN_OR_RETURN(Count value, count(point));
    polynomial.differences.push_back(static_cast<__int128>(value));
  }
  // Differences along one variable after the other, in place: value i becomes the i-th difference at 0.
  size_t stride = size;
  for (int degree : polynomial.degrees) {
    const size_t points = static_cast<size_t>(degree) + 1;
    stride /= points;
    for (size_t start = 0; start < size; ++start) {
      if (start / stride % points != 0)
        continue;
      for (size_t order = 1; order < points; ++order)
        for (size_t i = points - 1; i >= order; --i)
          polynomial.differences[start + i * stride] -= polynomial.differences[start + (i - 1) * stride];
    }
  }
  return polynomial;
}

Count CountPolynomial::at(const TwinPoint &point) const {
  // Binomial coefficients of every variable's index, then the sum over the tensor, innermost first.
  std::vector<__int128> values = differences;
  for (size_t i = variables.size(); i-- > 0;) {
    const size_t points = static_cast<size_t>(degrees[i]) + 1;
    const __int128 index = (point[i] - variables[i].least) / variables[i].step;
    for (size_t group = 0; group < values.size() / points; ++group) {
      __int128 sum = 0, binomial = 1;
      for (size_t order = 0; order < points; ++order) {
        sum += binomial * values[group * points + order];
        binomial = binomial * (index - static_cast<__int128>(order)) / static_cast<__int128>(order + 1);
      }
      values[group] = sum;
    }
    values.resize(values.size() / points);
  }
  return static_cast<Count>(values[0]);
}

__int128 residualOf(Count count, Count target) {
  return static_cast<__int128>(count) - static_cast<__int128>(target);
}

std::string residualText(Count count, Count target) {
  return concat(count == target ? "" : count > target ? "+" : "-", groupedDigits(distance(count, target)));
}

std::string residualPercent(Count count, Count target) {
  if (count == target)
    return "exact";
  double percent = 100 * static_cast<double>(residualOf(count, target)) / static_cast<double>(target);
  return absl::StrFormat("%+.4f %%", percent);
}

TwinAnswer searchTwins(const std::vector<TwinVariable> &variables, const CountPolynomial &count, Count target,
                       Count tolerance, size_t keep) {
  return Search(variables, count, target, tolerance, keep).run();
}

} // namespace sluice
