#include "frontends/cli/ConfigOfGraph.h"

#include "dialects/sluice/JsonAttributes.h"
#include "frontends/cli/LedgerFile.h"
#include "frontends/cli/TwinReport.h"
#include "frontends/huggingface/Config.h"

#include "llvm/Support/Path.h"

namespace sluice::cli {
namespace {

/// What a built model still knows of its making.
struct Remembered {
  std::string name, config, training; // JSON
  int64_t batch = 8, sequence = 256;
  Ledger ledger;
};

StatusOr<Remembered> ofExecutable(const std::string &path) {
  SLUICE_ASSIGN_OR_RETURN(Executable executable, loadExecutable(path));
  const ExecutableDescription &description = executable.description;
  SLUICE_ASSIGN_OR_RETURN(Ledger ledger, ledgerFromJson(description.ledger, path));
  Remembered result{llvm::sys::path::stem(path).str(), description.modelConfig, description.training};
  result.batch = static_cast<int64_t>(ledger.batch), result.sequence = static_cast<int64_t>(ledger.sequence);
  result.ledger = std::move(ledger);
  return result;
}

StatusOr<Remembered> ofGraph(const std::string &path) {
  Compiler compiler;
  SLUICE_ASSIGN_OR_RETURN(LoadedModel loaded, compiler.load(path));
  Remembered result;
  result.name = loaded.module->getSymName().value_or("model").str();
  if (mlir::Attribute config = (*loaded.module)->getAttr("sluice.model_config"))
    result.config = attributeToJsonText(config);
  if (mlir::Attribute training = (*loaded.module)->getAttr("sluice.training"))
    result.training = attributeToJsonText(training);
  SLUICE_RETURN_IF_ERROR(compiler.run(loaded, Phase::Differentiate, {}));
  SLUICE_ASSIGN_OR_RETURN(result.ledger, makeLedger(*loaded.module));
  // As they were bound: a graph may be bound already.
  result.batch = static_cast<int64_t>(result.ledger.batch);
  result.sequence = static_cast<int64_t>(result.ledger.sequence);
  return result;
}

/// The weights of the auxiliary losses are no part of a config.json.
void readLosses(ModelSource &source) {
  const llvm::json::Object *losses = source.training.getObject("losses");
  if (!losses || !source.config.moe)
    return;
  source.config.balanceWeight = losses->getNumber("balance").value_or(0);
  source.config.routerZWeight = losses->getNumber("router_z").value_or(0);
}

Status mustCountAlike(const std::string &model, const Ledger &own, const Ledger &described) {
  auto differ = [&](const std::string &what, Count mine, Count theirs) {
    return usageError(model, ": expected the graph that its configuration describes, found ", what, " of ",
                      groupedDigits(mine), ", not ", groupedDigits(theirs),
                      "; a twin needs sizes that may change: give the spec or config.json that fits");
  };
  for (const char *match : {"total", "active", "nonzero", "flops"})
    if (Count mine = matchedFigure(own, match), theirs = matchedFigure(described, match); mine != theirs)
      return differ(matchedName(match), mine, theirs);
  for (const std::string &role : parameterRoles) {
    auto of = [&](const Ledger &ledger) {
      auto found = ledger.parameters.byRole.find(role);
      return found == ledger.parameters.byRole.end() ? Count(0) : found->second;
    };
    if (of(own) != of(described))
      return differ(concat("parameters of role '", role, "'"), of(own), of(described));
  }
  return absl::OkStatus();
}

} // namespace

StatusOr<ModelSource> configOfGraph(const std::string &model) {
  SLUICE_ASSIGN_OR_RETURN(Remembered remembered, isExecutable(model) ? ofExecutable(model) : ofGraph(model));
  if (remembered.config.empty() || remembered.config == "{}")
    return usageError(model,
                      ": expected a model that remembers its configuration (model_config), found none; "
                      "a twin needs the sizes that it was made from");
  ModelSource source;
  SLUICE_ASSIGN_OR_RETURN(source.config,
                          parseHuggingFaceConfig(remembered.config, concat(model, ": model_config")));
  source.config.name = remembered.name;
  if (llvm::Expected<llvm::json::Value> training = llvm::json::parse(remembered.training)) {
    if (const llvm::json::Object *object = training->getAsObject())
      source.training = *object;
  } else {
    llvm::consumeError(training.takeError());
  }
  readLosses(source);
  source.batch = remembered.batch, source.sequence = remembered.sequence;
  ModelCounter counter(source, "");
  SLUICE_ASSIGN_OR_RETURN(Ledger described, counter.count(source.config, true));
  SLUICE_RETURN_IF_ERROR(mustCountAlike(model, remembered.ledger, described));
  return source;
}

} // namespace sluice::cli
