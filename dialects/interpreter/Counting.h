// The second opinion on the ledger: runs ops with scalars that count every operation as it happens.
#pragma once

#include "dialects/interfaces/Counts.h"
#include "dialects/interfaces/Evaluation.h"

#include "mlir/IR/Operation.h"

#include <cmath>
#include <optional>

namespace sluice {

/// Operations by class since the tally was made. One tally at a time counts, on its own thread.
class Tally {
public:
  Tally() : outer(current) { current = this; }
  ~Tally() { current = outer; }
  Tally(const Tally &) = delete;
  Tally &operator=(const Tally &) = delete;
  ClassCounts counts() const { return {contraction, add, multiply, divide, transcendental, compare, index}; }
  static Tally &get() { return *current; }

  uint64_t contraction = 0, add = 0, multiply = 0, divide = 0, transcendental = 0, compare = 0, index = 0;

private:
  Tally *outer;
  static inline thread_local Tally *current = nullptr;
};

/// A float64 that counts what is done with it. Changing a sign is free, as it rounds nothing.
struct Scalar {
  double value = 0;
  Scalar() = default;
  Scalar(double value) : value(value) {}

  friend Scalar operator+(Scalar a, Scalar b) { return ++Tally::get().add, a.value + b.value; }
  friend Scalar operator-(Scalar a, Scalar b) { return ++Tally::get().add, a.value - b.value; }
  friend Scalar operator*(Scalar a, Scalar b) { return ++Tally::get().multiply, a.value * b.value; }
  friend Scalar operator/(Scalar a, Scalar b) { return ++Tally::get().divide, a.value / b.value; }
  friend Scalar operator-(Scalar a) { return -a.value; }
  Scalar &operator+=(Scalar b) { return *this = *this + b; }
  Scalar &operator-=(Scalar b) { return *this = *this - b; }
  Scalar &operator*=(Scalar b) { return *this = *this * b; }
  friend bool operator>(Scalar a, Scalar b) { return ++Tally::get().compare, a.value > b.value; }
};
inline Scalar transcendental(double value) {
  return ++Tally::get().transcendental, value;
}
inline Scalar exp(Scalar x) {
  return transcendental(std::exp(x.value));
}
inline Scalar log(Scalar x) {
  return transcendental(std::log(x.value));
}
inline Scalar sqrt(Scalar x) {
  return ++Tally::get().divide, std::sqrt(x.value);
}
/// One operation, as processors have it.
inline Scalar reciprocalSqrt(Scalar x) {
  return ++Tally::get().divide, 1.0 / std::sqrt(x.value);
}
inline Scalar maximum(Scalar a, Scalar b) {
  return ++Tally::get().compare, std::fmax(a.value, b.value);
}
/// sum += a * b of a contraction.
inline void multiplyAdd(double &sum, double a, double b) {
  Tally::get().contraction += 2;
  sum += a * b;
}
/// Integer work: looking up, moving or placing one row.
inline void indexOnce() {
  ++Tally::get().index;
}

/// Computes the results of an op from `operands` with counting scalars, written here a second time with plain
/// loops and not read off the op's own count. Nullopt: the op has no counting meaning. Ops that only move
/// values (views, transpositions, slices, constants) run their own `evaluate`.
std::optional<std::vector<HostTensor>> evaluateCounting(mlir::Operation *op,
                                                        llvm::ArrayRef<const HostTensor *> operands);

} // namespace sluice
