// Routing diagnostics of an MoE layer: load of the experts, confidence of the router, and the verdict on
// collapse.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

/// Sums over the counted tokens (ignored targets are left out) of one layer, over any interval: they simply
/// add.
struct RoutingStatistics {
  std::vector<double> counts;   // [experts]: assignments each expert got; their sum is tokens x top_k
  double entropySum = 0;        // of each token's normalised router probabilities, nats
  double logZSum = 0;           // of logsumexp(router logits)
  double maxProbabilitySum = 0; // of each token's largest probability
  double tokens = 0;            // counted tokens

  RoutingStatistics() = default;
  explicit RoutingStatistics(size_t experts) : counts(experts) {}
  /// The output of the command routing_statistics: counts of E experts, then the four sums in the order
  /// above.
  static RoutingStatistics fromDevice(std::span<const float> values);
  /// Adds another interval or micro-batch of the same layer; an empty left side takes the other's experts.
  void add(const RoutingStatistics &other);
};

/// With c the counts, E experts, K experts a token, f = c / sum(c) the load. Formulas: the studies' routing
/// section; std is the population's. Without any assignment every figure is 0 and nothing is judged.
struct RoutingDiagnostics {
  std::vector<double> load;           // f; uniform is 1/E each
  double mostLoadedFraction = 0;      // max f: 1/E when uniform, 1/K at full collapse (picks are distinct)
  int mostLoadedExpert = 0;           // the lowest index among equals
  double coefficientOfVariation = 0;  // std(c) / mean(c)
  double loadEntropy = 0;             // -sum f ln f, nats
  double normalizedLoadEntropy = 0;   // divided by ln E; 1 when E = 1
  double routerEntropy = 0;           // mean over tokens, nats
  double normalizedRouterEntropy = 0; // divided by ln E; 1 when E = 1
  double meanLogZ = 0;                // mean over tokens of logsumexp(logits)
  double meanMaxProbability = 0;      // mean over tokens
  double maxViolation = 0;            // MaxVio = max(c) / mean(c) - 1
  int deadExperts = 0;                // experts without any assignment
  bool collapsed = false;             // in this interval: mostLoadedFraction >= collapseShare x 1/K, K < E
};

/// A router has collapsed over an interval when its busiest expert takes at least this share of the most it
/// can take: of all the assignments of an interval, one expert can get 1/K, since a token's K picks are
/// distinct. Where K = E every expert gets exactly 1/K always, so no verdict is given.
inline constexpr double collapseShare = 0.9;

/// Tells a collapse from a moment's imbalance. With fresh weights all tokens look alike to a router, so that
/// one interval, or any during the warmup, proves nothing: a collapse is named once a layer has been
/// collapsed in `collapseIntervals` log intervals in a row after the warmup.
inline constexpr int collapseIntervals = 3;

class CollapseWatch {
public:
  /// The next interval of `layer`; true when its collapse has lasted as said above. An interval of the warmup
  /// counts as healthy.
  bool observe(const std::string &layer, bool collapsed, bool warmup);

private:
  std::map<std::string, int> collapsedIntervals; // in a row, by layer
};

/// `topK` is K, from 1 to the number of experts.
RoutingDiagnostics diagnoseRouting(const RoutingStatistics &statistics, int topK);

/// The fields as they stand in metrics.jsonl (snake case).
nlohmann::ordered_json toJson(const RoutingDiagnostics &diagnostics);

/// One line that names the collapse, e.g. "layers.1.moe: the router collapsed: expert 3 takes 49.2% of the
/// assignments (uniform 25.0%, at most 50.0% with top-2)".
std::string collapseMessage(std::string_view layer, const RoutingDiagnostics &diagnostics, int topK);

} // namespace sluice
