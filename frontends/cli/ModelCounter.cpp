#include "frontends/cli/ModelCounter.h"

#include "frontends/cli/ConfigOfGraph.h"
#include "frontends/cli/DefaultBindings.h"
#include "frontends/cli/Paths.h"
#include "frontends/decoder/BuildDecoder.h"
#include "frontends/huggingface/Config.h"
#include "frontends/spec/Spec.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

namespace sluice::cli {

StatusOr<ModelSource> readModelSource(const std::string &model, const std::vector<std::string> &assignments) {
  SLUICE_RETURN_IF_ERROR(requireInput("MODEL", model, "a spec, a graph, an executable or a config.json"));
  ModelSource source;
  llvm::StringRef extension = llvm::sys::path::extension(model);
  if (extension == ".yaml" || extension == ".yml") {
    SLUICE_ASSIGN_OR_RETURN(Spec spec, readSpec(model, assignments));
    SLUICE_ASSIGN_OR_RETURN(SpecTree tree, SpecTree::read(model));
    for (const std::string &assignment : assignments)
      SLUICE_RETURN_IF_ERROR(tree.set(assignment));
    source.config = spec.decoder, source.training = std::move(spec.training), source.tree = std::move(tree);
    source.batch = spec.batch, source.sequence = spec.sequence;
    return source;
  }
  if (!assignments.empty())
    return usageError("--set: expected a spec (.yaml) to change, found '", model, "'");
  if (extension == ".json" || llvm::sys::fs::is_directory(model)) {
    SLUICE_ASSIGN_OR_RETURN(source.config, readHuggingFaceConfig(model));
    return source;
  }
  return configOfGraph(model);
}

ModelCounter::ModelCounter(const ModelSource &source, std::string sizes)
    : training(source.training), batch(source.batch), sequence(source.sequence),
      bindings(sizes.empty() ? concat("batch=", source.batch, ",seq=", source.sequence) : std::move(sizes)) {}

StatusOr<std::string> ModelCounter::graph(const DecoderConfig &config) {
  LoadedModel model;
  SLUICE_ASSIGN_OR_RETURN(model.module, buildDecoder(compiler.context(), config, training));
  model.batch = batch, model.sequence = sequence;
  rememberBindings(model);
  return printModule(*model.module);
}

StatusOr<Ledger> ModelCounter::count(const DecoderConfig &config, bool backward) {
  LoadedModel model;
  SLUICE_ASSIGN_OR_RETURN(model.module, buildDecoder(compiler.context(), config, training));
  CompilerOptions options;
  options.bindings = bindings;
  SLUICE_RETURN_IF_ERROR(compiler.run(model, backward ? Phase::Differentiate : Phase::Bind, options));
  SLUICE_ASSIGN_OR_RETURN(Ledger ledger, makeLedger(*model.module));
  tokens = ledger.batch * ledger.sequence;
  return ledger;
}

} // namespace sluice::cli
