// The ledger that an executable holds (JSON), read back so that it prints like a model's own.
#pragma once

#include "dialects/ledger/Ledger.h"

#include <string>

namespace sluice::cli {

/// The inverse of ledgerJson at the scale of a micro-batch. `place` names the file in messages. Error (bad
/// input): not a ledger.
StatusOr<Ledger> ledgerFromJson(const std::string &json, const std::string &place);

} // namespace sluice::cli
