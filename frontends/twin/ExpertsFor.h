// The inverse of 2506.12119: expert counts and widths for a given N, activation rate and granularity.
#pragma once

#include "dialects/ledger/conventions/Quantities.h"

#include <cstdint>
#include <string>
#include <vector>

namespace sluice {

/// What is asked for. N and the rate follow the study: matrices of the layers, without tables and norms.
/// Sizes that are 0 are solved for, or take the study's rule.
struct ExpertsRequest {
  Count parameters = 0;  // N
  double activeRate = 0; // r_a = N_a / N, the router counted in both if `routerCounted`
  bool routerCounted = true;
  int64_t width = 0;  // D_m; 0: the multiple of head_dim for which mu is nearest 22
  int64_t layers = 0; // 0: width / 88, rounded
  int64_t ffn = 0;    // of the dense layers; 0: 2.77 x width in multiples of 8
  int64_t headDim = 128, denseLayers = 1;
  bool shared = true; // a shared expert as wide as the chosen ones together
  int64_t topK = 0, experts = 0, expertFfn = 0;
  double granularity = 0;  // ffn / expert_ffn; 0: free
  int64_t multipleOf = 32; // of expert_ffn
  int64_t vocabulary = 65536, sequence = 2048;
  double tolerance = 0.005;      // of N and of the rate
  Count compute = 0, unique = 0; // C and the unique tokens, if tokens and epochs are asked for
};

/// Reads "N=2.15B,active-rate=20%,top-k=7,...". Errors (usage): an unknown key with the nearest, a bad value,
/// a missing N or active-rate, nothing that says how fine the experts are.
StatusOr<ExpertsRequest> parseExpertsRequest(const std::string &text);

struct ExpertsCandidate {
  PublishedShape shape;
  Count parameters = 0, active = 0; // the study's N and N_a
  double activeRate = 0;            // as asked for
  double distance = 0;              // the larger of the relative distances of N and of the rate
  double mu = 0, beta = 0;          // (D_se + E D_e) / D_m, (D_se + K D_e) / D_m
  Count trainingPerToken = 0;       // 3 M, the router counted
  Count tokens = 0;                 // C / 3 M, rounded; 0 without C
  double epochs = 0;                // tokens / unique; 0 without
};

/// All (E, K, D_e) on the grid within the tolerance, nearest first, at most `keep`; the nearest two if there
/// is none (their distance says so).
std::vector<ExpertsCandidate> solveExperts(const ExpertsRequest &request, size_t keep);

} // namespace sluice
