// Which weights a soft drop keeps: a sample without replacement, with probabilities proportional to |w|^3.
#pragma once

#include <cstdint>

namespace sluice {

/// log2(x) for x > 0 in units of 2^-32: the mantissa is squared 32 times, each square rounded down to 64
/// bits. The result is below the logarithm by less than two units, and the same on every machine.
int64_t fixedLog2(uint64_t x);

/// The key of a weight (or block of weights) whose sum of squares is `square`, given 32 random bits: the
/// weights with the smallest keys go. With E = -ln u a standard exponential draw, keeping the weights of the
/// smallest E / |w|^3 samples without replacement with probabilities proportional to |w|^3 (Efraimidis and
/// Spirakis 2006). The key orders as |w|^3 / E does: 512 + 3/2 log2(square) - log2(-log2 u) in units of
/// 2^-22, with u = (2 draw + 1) / 2^33, all in integers, so that every device drops the same weights. 0 is
/// the smallest key; a square that is not finite has the largest.
uint32_t softDropKey(double square, uint32_t draw);

} // namespace sluice
