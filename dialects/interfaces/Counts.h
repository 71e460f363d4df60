// Exact counts of scalar operations, by class. Integers of 128 bits: a training run of 1e26 FLOPs is normal.
#pragma once

#include <concepts>
#include <iosfwd>
#include <string>
#include <type_traits>

namespace sluice {

/// An exact number of at least zero. What does not fit into 128 bits, is negative or would divide by zero is
/// `Count::overflow()`, which every further operation keeps: it cannot be mistaken for a number, and the
/// ledger refuses it (an error instead of a wrong figure).
class Count {
public:
  constexpr Count() = default;
  template <std::integral T> constexpr Count(T value) {
    if constexpr (std::is_signed_v<T>)
      number = value < 0 ? largest : static_cast<unsigned __int128>(value);
    else
      number = value;
  }
  constexpr Count(unsigned __int128 value) : number(value) {}

  static constexpr Count overflow() { return Count(largest); }
  constexpr bool isOverflow() const { return number == largest; }

  template <typename T>
    requires(std::is_arithmetic_v<T> || std::is_same_v<T, unsigned __int128> || std::is_same_v<T, __int128>)
  explicit constexpr operator T() const {
    return static_cast<T>(number);
  }

  friend constexpr Count operator+(Count a, Count b) {
    Count sum;
    return either(a, b) || __builtin_add_overflow(a.number, b.number, &sum.number) ? overflow() : sum;
  }
  friend constexpr Count operator-(Count a, Count b) {
    return either(a, b) || a.number < b.number ? overflow() : Count(a.number - b.number);
  }
  friend constexpr Count operator*(Count a, Count b) {
    Count product;
    return either(a, b) || __builtin_mul_overflow(a.number, b.number, &product.number) ? overflow() : product;
  }
  friend constexpr Count operator/(Count a, Count b) {
    return either(a, b) || b.number == 0 ? overflow() : Count(a.number / b.number);
  }
  friend constexpr Count operator%(Count a, Count b) {
    return either(a, b) || b.number == 0 ? overflow() : Count(a.number % b.number);
  }
  constexpr Count &operator+=(Count other) { return *this = *this + other; }
  constexpr Count &operator-=(Count other) { return *this = *this - other; }
  constexpr Count &operator*=(Count other) { return *this = *this * other; }
  constexpr Count &operator/=(Count other) { return *this = *this / other; }
  friend constexpr bool operator==(Count a, Count b) { return a.number == b.number; }
  friend constexpr auto operator<=>(Count a, Count b) { return a.number <=> b.number; }

private:
  static constexpr unsigned __int128 largest = ~static_cast<unsigned __int128>(0);
  static constexpr bool either(Count a, Count b) { return a.isOverflow() || b.isOverflow(); }
  unsigned __int128 number = 0;
};

/// Decimal digits of `count`, without grouping; "overflow" if it is none.
std::string toDecimal(Count count);
/// The number that `digits` spells; `Count::overflow()` if they are not digits or too many.
Count fromDecimal(const std::string &digits);
std::ostream &operator<<(std::ostream &stream, Count count);

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
  /// What is neither inside contractions nor index work.
  Count elementwise() const { return add + multiply + divide + transcendental + compare; }
  /// All scalar operations on numbers: contractions and elementwise ones.
  Count arithmetic() const { return contraction + elementwise(); }
  bool operator==(const ClassCounts &) const = default;
};

/// The classes by name, in the order of reports.
struct CountClass {
  const char *name;
  Count ClassCounts::*member;
};
inline constexpr CountClass countClasses[] = {
    {"contraction", &ClassCounts::contraction},
    {"add", &ClassCounts::add},
    {"multiply", &ClassCounts::multiply},
    {"divide", &ClassCounts::divide},
    {"transcendental", &ClassCounts::transcendental},
    {"compare", &ClassCounts::compare},
    {"index", &ClassCounts::index},
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
  bool operator==(const OpCounts &) const = default;
  /// An op whose ideal and dense counts agree.
  static OpCounts same(const ClassCounts &counts) { return {counts, counts, {}}; }
};

} // namespace sluice
