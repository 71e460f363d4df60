#include "dialects/ledger/conventions/Quantities.h"

#include "llvm/ADT/StringRef.h"

namespace sluice {
namespace {

Count roleOf(const ParameterCounts &parameters, const std::string &role) {
  auto found = parameters.byRole.find(role);
  return found == parameters.byRole.end() ? 0 : found->second;
}

} // namespace

StatusOr<ConventionQuantities> quantitiesOf(const Ledger &ledger, Count tokens, Count sequence) {
  const ParameterCounts &parameters = ledger.parameters;
  ConventionQuantities q;
  q.tokens = tokens, q.sequence = sequence;
  q.total = parameters.total, q.active = parameters.active;
  q.inputTable = roleOf(parameters, "embedding");
  q.positionTable = roleOf(parameters, "position");
  q.tied = roleOf(parameters, "head") == 0;
  q.routerWeights = roleOf(parameters, "router");
  Count allExperts = 0; // products of the layers if every token took every expert
  for (const LedgerRow &row : ledger.rows) {
    if (row.graph != ledger.trainingGraph || row.direction != "forward")
      continue;
    const Count ideal = row.counts.ideal.contraction, dense = row.counts.dense.contraction;
    if (llvm::StringRef(row.op).starts_with("attention")) {
      q.attentionFull += row.fullAttention.contraction;
      q.attentionExact += ideal;
      // Causal without a window has (T + 1) / 2T of the square; anything else is counted as it is.
      bool isCausal = ideal * 2 * sequence == row.fullAttention.contraction * (sequence + 1);
      q.attentionHalf += isCausal ? row.fullAttention.contraction / 2 : ideal;
      q.scores += row.counts.dense.compare; // softmax compares every score once, for the maximum
    } else if (row.role == "head") {
      q.head += ideal;
    } else if (row.role == "router") {
      q.router += ideal;
    } else {
      q.layers += ideal;
      allExperts += dense;
    }
  }
  if (tokens == 0 || q.head == 0 || q.layers == 0)
    return usageError(
        "--convention: expected a language model with layers and a head, found a graph without; "
        "the conventions of papers are written for decoders");
  q.activeMatrices = q.layers / (2 * tokens);
  q.matrices = allExperts / (2 * tokens);
  q.keptMatrices = q.matrices - (parameters.total - parameters.nonzero);
  // Experts' biases stand beside their matrices in the difference; without masks the products say it exactly.
  q.unmaskedActive = parameters.total == parameters.nonzero
                         ? q.activeMatrices
                         : q.matrices - (parameters.total - parameters.active);
  q.training = ledger.training().counts.ideal.contraction;
  return q;
}

ConventionQuantities quantitiesOf(const PublishedShape &shape) {
  const Count d = shape.width, q = shape.heads * shape.headDim,
              kv = (shape.kvHeads ? shape.kvHeads : shape.heads) * shape.headDim, t = shape.sequence,
              mlp = shape.gated ? 3 : 2;
  const Count moeLayers = shape.experts ? shape.layers - shape.denseLayers : 0,
              denseLayers = shape.layers - moeLayers;
  const Count attention = d * q + 2 * d * kv + q * d;
  const Count outsideExperts =
      shape.layers * attention + denseLayers * mlp * d * shape.ffn + moeLayers * mlp * d * shape.sharedFfn;
  const Count norms = shape.gated ? 2 * d : 4 * d, biases = shape.gated ? 0 : q + 2 * kv + d + shape.ffn + d;

  ConventionQuantities result;
  result.sequence = t, result.tokens = shape.batch * t;
  result.inputTable = shape.vocabulary * d, result.positionTable = shape.positions * d;
  result.tied = shape.tied;
  result.matrices = outsideExperts + moeLayers * shape.experts * mlp * d * shape.expertFfn;
  result.activeMatrices = outsideExperts + moeLayers * shape.topK * mlp * d * shape.expertFfn;
  result.unmaskedActive = result.activeMatrices;
  result.keptMatrices = result.matrices * shape.keptPerMille / 1000;
  result.routerWeights = moeLayers * d * shape.experts;
  const Count rest = result.routerWeights + shape.layers * (norms + biases) +
                     result.inputTable * (shape.tied ? 1 : 2) + result.positionTable;
  result.total = shape.parameters ? shape.parameters : result.matrices + rest;
  result.active = result.total - (result.matrices - result.activeMatrices);

  result.layers = 2 * result.tokens * result.activeMatrices;
  result.router = 2 * result.tokens * result.routerWeights;
  result.head = 2 * result.tokens * result.inputTable;
  result.scores = shape.batch * shape.layers * shape.heads * t * t;
  result.attentionFull = 4 * result.scores * shape.headDim;
  result.attentionHalf = result.attentionFull / 2;
  result.attentionExact = 2 * shape.batch * shape.layers * q * t * (t + 1);
  result.training = 3 * (result.layers + result.router + result.head + result.attentionExact);
  return result;
}

} // namespace sluice
