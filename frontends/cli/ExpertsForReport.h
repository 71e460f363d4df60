// `sluice twin --experts-for`: the solved models as a table, as JSON and as a spec.
#pragma once

#include "frontends/twin/ExpertsFor.h"

#include <string>
#include <vector>

namespace sluice::cli {

struct ExpertsForFlags {
  std::string request, output, json;
  int show = 10;
};

/// Solves, prints, writes. Errors: usage; failure with the nearest two if no model is within the tolerance.
Status expertsFor(const ExpertsForFlags &flags);

} // namespace sluice::cli
