// Loops over one row of floats in portable SIMD; the order of additions depends on the length only.
#pragma once

#include <cstdint>

namespace sluice::cpu {

/// Largest of x[0..n), -infinity when n = 0; NaN may be passed over.
float rowMax(const float *x, int64_t n);
float rowDot(const float *x, const float *y, int64_t n);
/// Sum of squares, in double.
double rowSquares(const float *x, int64_t n);
/// Sum of exp(multiplier * x - shift).
float rowSumExp(const float *x, int64_t n, float multiplier, float shift);
/// out = exp(multiplier * x - shift) and the sum of out; out may be x.
float rowExp(const float *x, int64_t n, float multiplier, float shift, float *out);
/// out = factor * exp(x - shift); out may be x.
void rowScaledExp(const float *x, int64_t n, float shift, float factor, float *out);
/// out = factor * x; out may be x.
void rowScale(const float *x, int64_t n, float factor, float *out);
/// y += factor * x.
void rowAddScaled(const float *x, int64_t n, float factor, float *y);
/// out = p * (dp - shift) * factor: the adjoint of a scaled softmax; out may be dp.
void rowSoftmaxAdjoint(const float *p, const float *dp, int64_t n, float shift, float factor, float *out);
/// out = silu(gate) * up.
void rowSwiglu(const float *gate, const float *up, int64_t n, float *out);
/// Adjoint of rowSwiglu for the cotangent dout.
void rowSwigluAdjoint(const float *gate, const float *up, const float *dout, int64_t n, float *dgate,
                      float *dup);
/// Half-split rotary embedding of one head: out[i], out[i+half] = x rotated by the angles of cosine and sine;
/// `direction` is 1, or -1 to rotate back. out may be x.
void rowRotate(const float *x, const float *cosine, const float *sine, int64_t half, float direction,
               float *out);

} // namespace sluice::cpu
