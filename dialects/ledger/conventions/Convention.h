// How papers count parameters and FLOPs: one table of conventions, each a function of the same quantities.
#pragma once

#include "dialects/ledger/conventions/Quantities.h"

#include <string>
#include <vector>

namespace sluice {

/// A number that only this convention knows: an activation ratio, the work of one token.
struct ConventionFigure {
  std::string key;   // in JSON
  std::string label; // for people
  std::string value; // decimal text
};

/// What a convention says of one bound batch.
struct ConventionReport {
  Count parameters = 0; // its N, elements
  Count forward = 0;    // FLOPs of a forward pass over the bound batch
  Count training = 0;   // FLOPs of a training step over the bound batch, without the optimizer
  std::vector<ConventionFigure> figures;
};

struct Convention {
  const char *name;   // on the command line
  const char *source; // the paper or the program
  const char *counts; // one line: what it counts
  ConventionReport (*report)(const ConventionQuantities &quantities);
};

/// All conventions, `exact` first. Adding one is one function and one line in Convention.cpp.
const std::vector<Convention> &conventions();

/// The convention of that name. Error (usage): none; all names are listed.
StatusOr<const Convention *> findConvention(const std::string &name);

/// One convention for people: what it counts, N, forward and training FLOPs of the batch and of a token, and
/// how far that is from the exact count.
std::string conventionText(const Convention &convention, const ConventionQuantities &quantities);

/// All conventions as a table, training FLOPs beside the exact count.
std::string allConventionsText(const ConventionQuantities &quantities);

/// The same as JSON: {"tokens", "sequence", "conventions": [{"convention", "source", "counts", "parameters",
/// "flops": {"forward", "training"}, "figures": {...}}]}; every number is a decimal string.
std::string conventionsJson(const std::vector<const Convention *> &chosen,
                            const ConventionQuantities &quantities);

} // namespace sluice
