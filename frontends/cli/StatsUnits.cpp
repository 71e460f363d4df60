#include "frontends/cli/StatsUnits.h"

#include "runtime/train/Count.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

#include <cmath>

namespace sluice::cli {
namespace {

/// A number of at least zero with one of the prefixes and `unit` behind it; NaN if it is none.
double rateOf(llvm::StringRef text, llvm::StringRef unit) {
  if (!text.consume_back(unit))
    return NAN;
  double factor = 1;
  for (auto [prefix, power] : {std::pair{"k", 1e3}, std::pair{"M", 1e6}, std::pair{"G", 1e9},
                               std::pair{"T", 1e12}, std::pair{"P", 1e15}})
    if (text.consume_back(prefix)) {
      factor = power;
      break;
    }
  double value = 0;
  return text.trim().getAsDouble(value) || !(value > 0) || !std::isfinite(value) ? NAN : value * factor;
}

} // namespace

StatusOr<LedgerScale> parseScale(const std::string &text, const Ledger &ledger) {
  LedgerScale scale;
  if (text.empty())
    return scale;
  const Count micro = ledger.batch * ledger.sequence,
              step = ledger.stepTokens == 0 ? micro : ledger.stepTokens;
  llvm::StringRef word(text);
  if (word != "token" && word != "sequence" && word != "step" && !word.starts_with("run="))
    return usageError("--per: expected token, sequence, step or run=TOKENS (run=2B), found '", text, "'");
  if (micro == 0)
    return usageError("--per: expected a graph that reads tokens [batch, seq], found none");
  scale.divide = micro;
  scale.optimizerDivide = step;
  if (word.consume_front("run=")) {
    word.consume_back("tok");
    SLUICE_ASSIGN_OR_RETURN(int64_t tokens,
                            parseCount(std::string_view(word.data(), word.size()), "--per run"));
    scale.multiply = tokens;
    scale.optimizerMultiply = (Count(tokens) + step - 1) / step;
    scale.optimizerDivide = 1;
    scale.unit =
        "run of " + groupedDigits(tokens) + " tokens (" + groupedDigits(scale.optimizerMultiply) + " steps)";
  } else {
    scale.multiply = word == "token" ? Count(1) : word == "sequence" ? ledger.sequence : step;
    scale.optimizerMultiply = scale.multiply;
    scale.unit = text;
    if (word != "token")
      scale.unit += " of " + groupedDigits(scale.multiply) + " tokens";
  }
  return scale;
}

StatusOr<MachineRates> parseMachine(const std::string &text) {
  const std::string expected =
      "--machine: expected peak=NUMBER[k|M|G|T|P]FLOP/s,bandwidth=NUMBER[k|M|G|T|P]B/s, found ";
  MachineRates machine;
  llvm::SmallVector<llvm::StringRef> parts;
  llvm::StringRef(text).split(parts, ',');
  for (llvm::StringRef part : parts) {
    auto [key, value] = part.split('=');
    double &rate = key == "peak" ? machine.flops : machine.bandwidth;
    if ((key != "peak" && key != "bandwidth") || rate != 0)
      return usageError(expected, "'", part.str(), "'");
    rate = rateOf(value, key == "peak" ? "FLOP/s" : "B/s");
    if (std::isnan(rate))
      return usageError(expected, "'", part.str(), "'");
  }
  if (machine.flops == 0 || machine.bandwidth == 0)
    return usageError(expected, "'", text, "'");
  return machine;
}

} // namespace sluice::cli
