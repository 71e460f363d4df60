#include "frontends/cli/Compiler.h"

#include "codegen/package/Compile.h"
#include "dialects/ledger/Ledger.h"
#include "dialects/plan/Plan.h"
#include "dialects/sluice/Dims.h"
#include "dialects/sluice/Sluice.h"
#include "frontends/cli/DefaultBindings.h"
#include "frontends/cli/Paths.h"
#include "frontends/decoder/BuildDecoder.h"
#include "frontends/huggingface/Config.h"
#include "frontends/spec/Spec.h"
#include "runtime/device/cpu/BreakEvenCache.h"
#include "runtime/support/File.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Remarks.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/SourceMgr.h"

#include <chrono>

using namespace mlir;

namespace sluice::cli {
namespace {

/// Collects errors, so that they reach the person as the command's error; prints warnings and, if asked,
/// remarks.
class DiagnosticCollector {
public:
  DiagnosticCollector(MLIRContext &context, bool explain)
      : handler(&context, [this, explain](Diagnostic &diagnostic) {
          std::string text = diagnostic.str();
          std::string place;
          if (auto file = diagnostic.getLocation()->findInstanceOf<FileLineColLoc>())
            place = concat(std::string_view(file.getFilename().data(), file.getFilename().size()), ":",
                           file.getLine(), ":", file.getColumn(), ": ");
          if (diagnostic.getSeverity() == DiagnosticSeverity::Error)
            errors += (errors.empty() ? "" : "\n  ") + place + text;
          else if (diagnostic.getSeverity() == DiagnosticSeverity::Warning)
            llvm::errs() << place << "warning: " << text << "\n";
          else if (explain)
            llvm::outs() << text << "\n";
          for (Diagnostic &note : diagnostic.getNotes())
            if (diagnostic.getSeverity() == DiagnosticSeverity::Error)
              errors += "\n  note: " + note.str();
          return success();
        }) {}
  /// The errors as one status; `fallback` if a pass failed without a word, which is a fault of ours.
  Status status(const std::string &fallback) const {
    return errors.empty() ? failure(fallback, " failed without a diagnostic; this is a fault of the compiler")
                          : usageError(errors);
  }
  /// The errors of a phase from form-kernels on: the model is right, but the device lacks something.
  Status deviceStatus(const std::string &fallback) const {
    return errors.empty() ? status(fallback) : failure(errors);
  }

private:
  std::string errors;
  ScopedDiagnosticHandler handler;
};

StatusOr<LoadedModel> loadGraph(MLIRContext &context, const std::string &path) {
  StatusOr<std::string> text = readFile(path);
  if (!text.ok())
    return usageError(std::string(text.status().message()));
  DiagnosticCollector diagnostics(context, false);
  llvm::SourceMgr sources;
  sources.AddNewSourceBuffer(llvm::MemoryBuffer::getMemBufferCopy(*text, path), llvm::SMLoc());
  LoadedModel loaded;
  loaded.module = parseSourceFile<ModuleOp>(sources, &context);
  if (!loaded.module)
    return diagnostics.status("parsing " + path);
  // A graph that came from a spec remembers its micro-batch.
  if (auto defaults = (*loaded.module)->getAttrOfType<DictionaryAttr>("sluice.default_bindings")) {
    if (auto batch = defaults.getAs<IntegerAttr>("batch"))
      loaded.batch = batch.getInt();
    if (auto sequence = defaults.getAs<IntegerAttr>("seq"))
      loaded.sequence = sequence.getInt();
  }
  return loaded;
}

} // namespace

Compiler::Compiler() {
  DialectRegistry registry;
  registry.insert<SluiceDialect, plan::PlanDialect, arith::ArithDialect, math::MathDialect>();
  // One thread: phases are short, and the order of diagnostics must not vary.
  mlirContext = std::make_unique<MLIRContext>(registry, MLIRContext::Threading::DISABLED);
  mlirContext->loadAllAvailableDialects();
  mlirContext->printOpOnDiagnostic(false);
}
Compiler::~Compiler() = default;

void rememberBindings(LoadedModel &model) {
  Builder builder(model.module->getContext());
  (*model.module)
      ->setAttr("sluice.default_bindings",
                builder.getDictionaryAttr(
                    {builder.getNamedAttr("batch", builder.getI64IntegerAttr(model.batch)),
                     builder.getNamedAttr("seq", builder.getI64IntegerAttr(model.sequence))}));
}

bool isExecutable(const std::string &path) {
  return llvm::sys::path::extension(path) == ".slx";
}

std::string printModule(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  module.print(stream, OpPrintingFlags().printNameLocAsPrefix().useLocalScope());
  text += "\n";
  return text;
}

StatusOr<LoadedModel> Compiler::load(const std::string &path, const std::vector<std::string> &assignments,
                                     int64_t vocabulary) {
  SLUICE_RETURN_IF_ERROR(requireInput("MODEL", path, "a spec, a graph or a config.json"));
  llvm::StringRef extension = llvm::sys::path::extension(path);
  if (isExecutable(path))
    return usageError(path, ": expected a spec, a graph or a config.json here, found an executable");
  if (extension == ".yaml" || extension == ".yml") {
    SLUICE_ASSIGN_OR_RETURN(Spec spec, readSpec(path, assignments, vocabulary));
    LoadedModel loaded;
    SLUICE_ASSIGN_OR_RETURN(loaded.module, buildDecoder(*mlirContext, spec.decoder, spec.training));
    loaded.batch = spec.batch, loaded.sequence = spec.sequence, loaded.spec = spec.resolved;
    rememberBindings(loaded);
    return loaded;
  }
  if (!assignments.empty())
    return usageError("--set: expected a spec (.yaml) to change, found '", path, "'");
  if (extension == ".mlir")
    return loadGraph(*mlirContext, path);
  if (extension == ".json" || llvm::sys::fs::is_directory(path)) {
    SLUICE_ASSIGN_OR_RETURN(DecoderConfig config, readHuggingFaceConfig(path));
    for (const std::string &warning : config.warnings)
      llvm::errs() << path << ": warning: " << warning << "\n";
    LoadedModel loaded;
    llvm::json::Object training{{"lr", 3e-4}};
    training["batch_tokens"] = loaded.batch * loaded.sequence;
    training["optimizer"] = llvm::json::Object{{"kind", "adamw"}, {"beta1", 0.9},        {"beta2", 0.95},
                                               {"epsilon", 1e-8}, {"weight_decay", 0.1}, {"clip", 1.0}};
    SLUICE_ASSIGN_OR_RETURN(loaded.module, buildDecoder(*mlirContext, config, training));
    rememberBindings(loaded);
    return loaded;
  }
  return usageError(
      path, ": expected a spec (.yaml), a graph (.mlir), an executable (.slx) or a Hugging Face config.json "
            "(or its folder)");
}

/// The sizes that the model's source suggests, for those of `batch` and `seq` that its graphs leave open.
static std::string ownBindings(LoadedModel &model) {
  std::string bindings;
  for (auto [name, size] : {std::pair("batch", model.batch), std::pair("seq", model.sequence)}) {
    bool open = false;
    for (GraphOp graph : model.module->getOps<GraphOp>())
      for (mlir::Type type : graph.getBlock()->getArgumentTypes())
        for (const Dim &dim : dimsOf(type))
          open |= !dim.isStatic() && dim.name.find(name) != std::string::npos;
    if (open)
      bindings += concat(bindings.empty() ? "" : ",", name, "=", size);
  }
  return bindings;
}

Status Compiler::run(LoadedModel &model, Phase to, const CompilerOptions &options) {
  DiagnosticCollector diagnostics(*mlirContext, options.explain);
  PipelineOptions pipeline;
  pipeline.bindings = options.bindings.empty() ? ownBindings(model) : options.bindings;
  pipeline.saveBudget = options.saveBudget;
  pipeline.breakEven = cpu::knownBreakEven;
  pipeline.cuda = !options.cudaTargets.empty();
  pipeline.storeKept = !pipeline.cuda; // one plan for all targets, and CUDA's kernels read whole weights
  int number = 0;
  auto save = [&](llvm::StringRef phase) -> Status {
    if (options.saveTemps.empty())
      return absl::OkStatus();
    if (std::error_code error = llvm::sys::fs::create_directories(options.saveTemps))
      return failure("cannot make folder '", options.saveTemps, "': ", error.message());
    return writeFile(concat(options.saveTemps, "/", number, "-", phase.str(), ".mlir"),
                     printModule(*model.module));
  };
  for (const PhaseInfo &info : phases()) {
    if (info.phase > to)
      break;
    auto start = std::chrono::steady_clock::now();
    if (info.phase != Phase::Parse) {
      PassManager manager(mlirContext.get());
      manager.enableVerifier(false); // the graph is verified once a phase, below
      addPhase(manager, info.phase, pipeline);
      if (failed(manager.run(*model.module)) || failed(verify(*model.module))) {
        const std::string place = concat("phase ", std::string_view(info.name.data(), info.name.size()));
        return info.phase < Phase::FormKernels ? diagnostics.status(place) : diagnostics.deviceStatus(place);
      }
    }
    if (options.timing)
      llvm::errs() << absl::StrFormat(
          "%-18s %7.3f s\n", info.name.str(),
          std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    SLUICE_RETURN_IF_ERROR(save(info.name));
    ++number;
  }
  return absl::OkStatus();
}

StatusOr<std::string> Compiler::compile(LoadedModel &model, const CompilerOptions &options) {
  SLUICE_RETURN_IF_ERROR(run(model, Phase::Plan, options));
  auto start = std::chrono::steady_clock::now();
  SLUICE_ASSIGN_OR_RETURN(Ledger ledger, makeLedger(*model.module));
  DiagnosticCollector diagnostics(*mlirContext, options.explain);
  CompileOptions compileOptions;
  compileOptions.ledger = ledgerJson(ledger);
  compileOptions.cudaTargets = options.cudaTargets;
  StatusOr<std::string> bytes = compileToExecutable(*model.module, compileOptions);
  if (options.timing)
    llvm::errs() << absl::StrFormat(
        "%-18s %7.3f s\n", "generate, package",
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  return bytes;
}

} // namespace sluice::cli
