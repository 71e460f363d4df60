// Small masked models for tests: built up to a phase, run by the interpreter.
#pragma once

#include "dialects/interpreter/Interpreter.h"
#include "dialects/ledger/Ledger.h"
#include "dialects/plan/Plan.h"
#include "dialects/sluice/Notation.h"
#include "frontends/decoder/BuildDecoder.h"
#include "passes/Pipeline.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Pass/PassManager.h"
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace sluice::test {

using namespace mlir;

class MaskModel : public testing::Test {
protected:
  MaskModel() {
    DialectRegistry registry;
    registry.insert<SluiceDialect, plan::PlanDialect, arith::ArithDialect, math::MathDialect>();
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
    context.disableMultithreading();
    context.printOpOnDiagnostic(false);
  }

  /// The tiny graphs of the reference: d = 8, L = 2, H = 4, KV = 2, f = 12, V = 11, T = 5, B = 2.
  static DecoderConfig tiny() {
    DecoderConfig config;
    config.name = "tiny";
    config.vocabulary = 11, config.width = 8, config.layers = 2;
    config.heads = 4, config.kvHeads = 2, config.headDim = 2, config.ffn = 12;
    return config;
  }
  static DecoderConfig tinyMoe() {
    DecoderConfig config = tiny();
    config.ffn = 0;
    config.moe = MoeConfig();
    config.moe->experts = 4, config.moe->topK = 2, config.moe->ffn = 6;
    return config;
  }
  static Sparsity uniform(Ratio density) {
    Sparsity sparsity;
    sparsity.targets = {"attention", "mlp"};
    sparsity.density = density;
    return sparsity;
  }

  OwningOpRef<ModuleOp> build(const DecoderConfig &config, Phase to, llvm::json::Object sparsity = {}) {
    llvm::json::Object training{{"batch_tokens", 10}};
    if (!sparsity.empty())
      training["sparsity"] = std::move(sparsity);
    StatusOr<OwningOpRef<ModuleOp>> built = buildDecoder(context, config, training);
    EXPECT_TRUE(built.ok()) << built.status();
    if (!built.ok())
      return {};
    PipelineOptions options;
    options.bindings = "batch=2,seq=5";
    options.breakEven = [this](const MaskedShape &) { return BreakEven::all(breakEven); };
    for (const PhaseInfo &info : phases()) {
      if (info.phase > to)
        break;
      PassManager manager(&context);
      addPhase(manager, info.phase, options);
      std::string errors;
      ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
        if (diagnostic.getSeverity() == DiagnosticSeverity::Error)
          errors += diagnostic.str();
        return success();
      });
      EXPECT_TRUE(succeeded(manager.run(**built))) << info.name.str() << ": " << errors;
    }
    return std::move(*built);
  }

  static Ledger ledgerOf(ModuleOp module) {
    StatusOr<Ledger> ledger = makeLedger(module);
    EXPECT_TRUE(ledger.ok()) << ledger.status();
    return ledger.ok() ? *ledger : Ledger();
  }

  static HostTensor scalar(double value, llvm::ArrayRef<int64_t> shape = {}) {
    return HostTensor(shape, value);
  }
  static TensorMap batch() {
    HostTensor tokens({2, 5}), targets({2, 5});
    for (int64_t i = 0; i < 10; ++i)
      tokens[i] = static_cast<double>(i * 7 % 11), targets[i] = static_cast<double>((i * 3 + 1) % 11);
    return {{"tokens", tokens}, {"targets", targets}};
  }
  static TensorMap run(ModuleOp module, llvm::StringRef graph, const TensorMap &inputs, TensorMap &states) {
    StatusOr<TensorMap> outputs = Interpreter(module).run(graph, inputs, states);
    EXPECT_TRUE(outputs.ok()) << outputs.status();
    return outputs.ok() ? *outputs : TensorMap();
  }
  static TensorMap applyInputs(double step) {
    return {{"learning_rate", scalar(1e-2)}, {"step", scalar(step)}, {"tokens", scalar(10)}};
  }

  /// Percentage of kept weights up to which products skip zeros; from there on weights are whole.
  double breakEven = defaultBreakEvenPercent;
  MLIRContext context;
};

} // namespace sluice::test
