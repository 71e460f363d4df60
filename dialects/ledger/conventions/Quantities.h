// What the conventions of papers are made of: parameters and forward contractions by what they belong to,
// from a ledger or, for published rows, from a table's dimensions.
#pragma once

#include "dialects/ledger/Ledger.h"
#include "runtime/support/Status.h"

namespace sluice {

/// Sizes in elements, work in FLOPs of the contractions of one forward pass over all `tokens`
/// (1 multiply-add = 2). A "matrix" is a weight of a layer that enters a product of a token: no table,
/// router, norm or bias.
struct ConventionQuantities {
  Count tokens = 0;   // of the bound batch
  Count sequence = 0; // tokens of one sequence

  Count total = 0, active = 0; // all parameters; stacked experts counted top_k times in `active`
  Count inputTable = 0;        // V x d
  Count positionTable = 0;     // learned positions
  bool tied = false;           // the input table is the head
  Count matrices = 0;          // all experts
  Count activeMatrices = 0;    // top_k experts, masked weights left out
  Count unmaskedActive = 0;    // top_k experts, masked weights included
  Count keptMatrices = 0;      // all experts, masked weights left out
  Count routerWeights = 0;

  Count layers = 0; // products with active matrices
  Count router = 0, head = 0;
  Count attentionFull = 0;  // scores and values over T x T
  Count attentionHalf = 0;  // half of it; windowed layers exactly
  Count attentionExact = 0; // T (T + 1) / 2 pairs; windowed layers exactly
  Count scores = 0;         // heads x T x T over layers and sequences

  Count training = 0; // forward and backward as counted: contractions, causal exact
};

/// The quantities of a ledger after *differentiate*. `sequence` is the bound length. Error (usage): the graph
/// has no head or no products, so that a convention would mean nothing.
StatusOr<ConventionQuantities> quantitiesOf(const Ledger &ledger, Count tokens, Count sequence);

/// A row of a published table: a decoder without biases in the counts of its work. `gated`: three matrices in
/// an MLP and no biases and one gain a norm (LLaMA), else two, biases everywhere and two (GPT-2).
struct PublishedShape {
  Count layers = 0, width = 0, heads = 0, kvHeads = 0, headDim = 0;
  Count ffn = 0; // dense MLP; unused with experts
  Count experts = 0, topK = 0, expertFfn = 0, sharedFfn = 0;
  Count denseLayers = 0;               // first layers with the dense MLP in spite of `experts`
  Count vocabulary = 0, positions = 0; // learned positions: rows of their table
  Count sequence = 0, batch = 1;
  bool gated = true, tied = false;
  Count parameters = 0;      // the published number; 0: counted from the dimensions
  Count keptPerMille = 1000; // share of the matrices that masks keep
};

/// The quantities of such a row. Training is three times forward. Parameters follow 2104.04473, equation 2:
/// 12 L h^2 + 13 L h + (V + T) h in its case, that is without a final norm.
ConventionQuantities quantitiesOf(const PublishedShape &shape);

} // namespace sluice
