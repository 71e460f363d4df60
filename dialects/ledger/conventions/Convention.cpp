#include "dialects/ledger/conventions/Convention.h"

#include "dialects/ledger/conventions/SparseTraining.h"

#include "absl/strings/str_format.h"

namespace sluice {
namespace {

using Quantities = ConventionQuantities;

/// Training as forward and two products of the same size.
ConventionReport threeTimes(Count parameters, Count forward) {
  return {parameters, forward, 3 * forward, {}};
}

std::string percent(Count part, Count whole) {
  return absl::StrFormat("%.2f",
                         whole == 0 ? 0 : 100 * static_cast<double>(part) / static_cast<double>(whole));
}

ConventionReport exact(const Quantities &q) {
  return {q.active, q.layers + q.router + q.head + q.attentionExact, q.training, {}};
}

ConventionReport sixN(const Quantities &q) {
  return threeTimes(q.active, 2 * q.active * q.tokens);
}

ConventionReport palm(const Quantities &q) {
  return threeTimes(q.active, 2 * q.active * q.tokens + q.attentionFull);
}

ConventionReport nanoGpt(const Quantities &q) {
  Count n = q.active - q.positionTable;
  return threeTimes(n, 2 * n * q.tokens + q.attentionFull);
}

ConventionReport kaplan(const Quantities &q) {
  // C_forward = 2 N + 2 L T d_attn a token: the second term is the causal half of both products.
  return threeTimes(q.activeMatrices, 2 * q.activeMatrices * q.tokens + q.attentionFull / 2);
}

ConventionReport chinchilla(const Quantities &q) {
  return threeTimes(q.active, q.layers + q.attentionFull + 3 * q.scores);
}

ConventionReport chinchillaText(const Quantities &q) {
  return threeTimes(q.active,
                    q.layers + q.attentionFull + 3 * q.scores + q.head + 2 * q.tokens * q.inputTable);
}

ConventionReport megatron(const Quantities &q) {
  return threeTimes(q.total, q.layers + q.attentionFull + q.head);
}

ConventionReport megatronRecompute(const Quantities &q) {
  ConventionReport report = megatron(q);
  report.training += q.layers + q.attentionFull; // the head is never computed again
  return report;
}

ConventionReport megatronBridge(const Quantities &q) {
  return threeTimes(q.total, q.layers + q.attentionHalf + q.head);
}

ConventionReport torchtitan(const Quantities &q) {
  Count n = q.active - (q.tied ? 0 : q.inputTable);
  return threeTimes(n, 2 * n * q.tokens + q.attentionFull);
}

/// Li et al.: N and N_a without tables, norms and router; M = 2 N_a + 4 D_m S L forward a token; C = 3 M D.
/// Some of its tables count the router, others do not, so both are shown.
ConventionReport equalResources(const Quantities &q) {
  ConventionReport report = threeTimes(q.matrices, q.layers + q.attentionFull);
  auto figure = [&](const char *key, const char *label, std::string value) {
    report.figures.push_back({key, label, std::move(value)});
  };
  auto perToken = [&](Count work) { return toDecimal(work / q.tokens); };
  figure("n_active", "N_a, activated", toDecimal(q.activeMatrices));
  figure("router", "router", toDecimal(q.routerWeights));
  figure("activation_percent", "r_a = N_a / N, %", percent(q.activeMatrices, q.matrices));
  figure("activation_percent_with_router", "r_a with the router, %",
         percent(q.activeMatrices + q.routerWeights, q.matrices + q.routerWeights));
  figure("m_forward", "M of a token, forward", perToken(q.layers + q.attentionFull));
  figure("m_training", "3 M, as in the tables", perToken(3 * (q.layers + q.attentionFull)));
  figure("m_training_with_router", "3 M with the router",
         perToken(3 * (q.layers + q.router + q.attentionFull)));
  return report;
}

/// Wu et al.: N = the masked matrices and one table, times the density (the table too, though it stays
/// dense); C = 6 N D.
ConventionReport sparseRepeated(const Quantities &q) {
  const Count dense = q.unmaskedActive + q.inputTable;
  const Count active = dense * q.keptMatrices / q.matrices;
  ConventionReport report = threeTimes(active, 2 * active * q.tokens);
  const double density = static_cast<double>(q.keptMatrices) / static_cast<double>(q.matrices);
  report.figures = {{"n_dense", "N of the unmasked model", toDecimal(dense)},
                    {"density", "density", absl::StrFormat("%.6f", density)},
                    {"dense_training", "dense FLOPs, 6 N / density", toDecimal(6 * dense * q.tokens)}};
  struct Method {
    SparseTraining method;
    const char *key, *label;
  };
  for (const Method &entry :
       {Method{SparseTraining::Static, "step_static", "a step of SET, of dense training"},
        Method{SparseTraining::Rigl, "step_rigl", "of RigL, masks updated every 100 steps"},
        Method{SparseTraining::Snfs, "step_snfs", "of SNFS, dense weight gradients"}})
    report.figures.push_back(
        {entry.key, entry.label, absl::StrFormat("%.6f", sparseTrainingShare(entry.method, density))});
  return report;
}

} // namespace

const std::vector<Convention> &conventions() {
  static const std::vector<Convention> table = {
      {"exact", "this graph", "contractions of the graph, attention causal exact; N active", exact},
      {"6n", "6 N D", "6 N a token, N = active parameters with both tables; no attention", sixN},
      {"palm", "2204.02311, appendix B", "6 N + 12 L H h T a token, N = active parameters; full attention",
       palm},
      {"megatron", "2104.04473", "3 x (layers, full attention, head); no router, no norms, no lookup",
       megatron},
      {"megatron-recompute", "2104.04473",
       "4 x (layers, full attention) + 3 x head: layers are computed twice", megatronRecompute},
      {"megatron-bridge", "Megatron-Bridge",
       "3 x (layers, causal half of attention, head); windows exact; no router", megatronBridge},
      {"torchtitan", "torchtitan",
       "6 N + 6 L H (d_qk + d_v) T a token, N = active without an untied input table", torchtitan},
      {"chinchilla", "2203.15556, table A4",
       "3 x (layers, full attention, 3 a score for softmax); no head, no lookup", chinchilla},
      {"chinchilla-text", "2203.15556, appendix F",
       "as chinchilla, and the head, and the lookup as a product", chinchillaText},
      {"kaplan", "2001.08361", "6 N + 6 L T d_attn a token, N = matrices of the layers; no head", kaplan},
      {"nanogpt", "nanoGPT", "6 N + 12 L H h T a token, N = active parameters without positions", nanoGpt},
      {"2506.12119", "2506.12119", "3 x (2 N_a + 4 D_m S L) a token; N without tables, norms, router",
       equalResources},
      {"2606.01155", "2606.01155", "6 N a token, N = (active matrices + one table) x density; no attention",
       sparseRepeated},
  };
  return table;
}

StatusOr<const Convention *> findConvention(const std::string &name) {
  std::string names;
  for (const Convention &convention : conventions()) {
    if (name == convention.name)
      return &convention;
    names += names.empty() ? convention.name : concat(", ", convention.name);
  }
  return usageError("--convention: expected one of ", names, " or all, found '", name, "'");
}

} // namespace sluice
