#include "dialects/ledger/conventions/SparseTraining.h"

namespace sluice {

double sparseTrainingShare(SparseTraining method, double density, double interval) {
  const double sparse = 3 * density, denseGradient = 2 * density + 1;
  switch (method) {
  case SparseTraining::Static:
    return sparse / 3;
  case SparseTraining::Snfs:
    return denseGradient / 3;
  case SparseTraining::Rigl:
    return (sparse * interval + denseGradient) / (interval + 1) / 3;
  }
  return 1;
}

} // namespace sluice
