// Counting configurations: what `sluice twin` asks of the compiler for every candidate.
#pragma once

#include "dialects/ledger/Ledger.h"
#include "frontends/cli/Compiler.h"
#include "frontends/decoder/DecoderConfig.h"
#include "frontends/spec/SpecTree.h"

#include "llvm/Support/JSON.h"

#include <optional>
#include <string>
#include <vector>

namespace sluice::cli {

/// A model whose sizes may change.
struct ModelSource {
  DecoderConfig config;
  llvm::json::Object training;
  std::optional<SpecTree> tree; // of a spec
  int64_t batch = 8, sequence = 256;
};

/// Reads MODEL: a spec, a config.json, or a graph or an executable that remembers the configuration it was
/// made from. Error (usage): it remembers none, or counts otherwise than its configuration (ConfigOfGraph.h).
StatusOr<ModelSource> readModelSource(const std::string &model, const std::vector<std::string> &assignments);

/// Builds graphs of configurations and counts them at the same sizes.
class ModelCounter {
public:
  /// `bindings`: "batch=8,seq=256"; empty: the source's own.
  ModelCounter(const ModelSource &source, std::string bindings);

  /// The ledger of a configuration: after *differentiate* if `backward`, else after *bind*, which is enough
  /// for parameters and quicker.
  StatusOr<Ledger> count(const DecoderConfig &config, bool backward);
  /// The graph of a configuration as text, with the source's sizes.
  StatusOr<std::string> graph(const DecoderConfig &config);
  const std::string &sizes() const { return bindings; }
  /// Tokens of the bound batch, after the first count.
  Count boundTokens() const { return tokens; }

private:
  Compiler compiler;
  llvm::json::Object training;
  int64_t batch, sequence;
  std::string bindings;
  Count tokens = 0;
};

} // namespace sluice::cli
