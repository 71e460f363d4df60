// The whole way down: a small MoE decoder is planned, packed into an executable, loaded and trained for a few
// steps on the CPU; every state and output is held against the interpreter in float64.
#include "codegen/package/Compile.h"
#include "dialects/interpreter/Interpreter.h"
#include "dialects/plan/Plan.h"
#include "passes/Pipeline.h"
#include "runtime/device/cpu/CpuDevice.h"
#include "runtime/executor/Session.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

#include "gtest/gtest.h"

#include <cmath>
#include <cstring>

namespace sluice {
namespace {

constexpr double limit = 1e-5; // relative L2 of float32 kernels

double relativeError(const HostTensor &expected, const std::vector<float> &found) {
  double difference = 0, norm = 0;
  for (int64_t i = 0; i < expected.size(); ++i) {
    difference += std::pow(expected[i] - static_cast<double>(found[i]), 2);
    norm += expected[i] * expected[i];
  }
  return std::sqrt(difference / std::max(norm, 1e-20));
}

class CompileTest : public testing::Test {
protected:
  CompileTest() {
    context
        .loadDialect<SluiceDialect, plan::PlanDialect, mlir::arith::ArithDialect, mlir::math::MathDialect>();
    context.getDiagEngine().registerHandler([](mlir::Diagnostic &diagnostic) {
      if (diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error)
        ADD_FAILURE() << diagnostic.str();
    });
  }

  mlir::OwningOpRef<mlir::ModuleOp> planned(const std::string &bindings) {
    auto module = mlir::parseSourceFile<mlir::ModuleOp>(
        std::string(SLUICE_SOURCE_DIR) + "/tests/lit/passes/Inputs/moe.mlir", &context);
    if (!module)
      return nullptr;
    mlir::PassManager manager(&context);
    PipelineOptions options;
    options.bindings = bindings;
    buildPipeline(manager, Phase::Plan, options);
    return mlir::succeeded(manager.run(*module)) ? std::move(module) : nullptr;
  }

  mlir::MLIRContext context;
};

/// The interpreter and a session side by side.
class Pair {
public:
  Pair(mlir::ModuleOp module, Session &session)
      : interpreter(module, {.simulateArenas = true}), session(session), states(initialStates(module, 5)) {}

  void set(const std::string &entry, const std::string &name, const HostTensor &value) {
    inputs[name] = value;
    auto operand = session.input(entry, name);
    ASSERT_TRUE(operand.ok()) << operand.status();
    if ((*operand)->type == ElementType::F32) {
      std::vector<float> data(value.values.begin(), value.values.end());
      EXPECT_TRUE(session.setInput<float>(entry, name, data).ok());
    } else {
      std::vector<int32_t> data(value.values.begin(), value.values.end());
      EXPECT_TRUE(session.setInput<int32_t>(entry, name, data).ok());
    }
  }

  void run(const std::string &entry) {
    StatusOr<TensorMap> expected = interpreter.run(entry, inputs, states);
    ASSERT_TRUE(expected.ok()) << expected.status();
    Status status = session.run(entry);
    ASSERT_TRUE(status.ok()) << status;
    for (const auto &[name, value] : *expected) {
      std::vector<float> found(value.values.size());
      Status read = session.getOutput<float>(entry, name, absl::MakeSpan(found));
      ASSERT_TRUE(read.ok()) << read;
      EXPECT_LE(relativeError(value, found), limit) << entry << ", output " << name;
    }
    inputs.clear();
    compareStates(entry);
  }

  void compareStates(const std::string &when) {
    for (const auto &[name, value] : states) {
      StatusOr<std::string> bytes = session.readState(name);
      ASSERT_TRUE(bytes.ok()) << bytes.status();
      std::vector<float> found(value.values.size());
      ASSERT_EQ(bytes->size(), found.size() * 4);
      std::memcpy(found.data(), bytes->data(), bytes->size());
      EXPECT_LE(relativeError(value, found), limit) << "after " << when << ", state " << name;
    }
  }

private:
  Interpreter interpreter;
  Session &session;
  TensorMap inputs, states;
};

HostTensor scalar(double value) {
  return HostTensor({}, value);
}

TEST_F(CompileTest, TrainsLikeTheInterpreter) {
  mlir::OwningOpRef<mlir::ModuleOp> module = planned("batch=3,seq=5");
  ASSERT_TRUE(module);
  StatusOr<std::string> bytes = compileToExecutable(*module, {});
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  StatusOr<Executable> executable = parseExecutable(*bytes, "test.slx");
  ASSERT_TRUE(executable.ok()) << executable.status();
  auto device = createCpuDevice(2);
  ASSERT_TRUE(device.ok());
  StatusOr<Session> session = Session::create(*executable, **device);
  ASSERT_TRUE(session.ok()) << session.status();
  ASSERT_TRUE(session->initialize(5).ok());

  Pair pair(*module, *session);
  pair.compareStates("init");
  for (int step = 1; step <= 3; ++step) {
    double counted = 0;
    for (int micro = 0; micro < 2; ++micro) {
      HostTensor tokens({3, 5}), targets({3, 5});
      for (int64_t i = 0; i < 15; ++i) {
        tokens[i] = static_cast<double>((i * 7 + step * 3 + micro) % 11);
        targets[i] = i % 4 == 3 ? -100.0 : static_cast<double>((i * 5 + step + micro) % 11);
        counted += targets[i] >= 0;
      }
      pair.set("accumulate", "tokens", tokens);
      pair.set("accumulate", "targets", targets);
      pair.run("accumulate");
    }
    pair.set("apply", "learning_rate", scalar(1e-2));
    pair.set("apply", "step", scalar(step));
    pair.set("apply", "tokens", scalar(counted));
    pair.run("apply");
  }
}

TEST_F(CompileTest, SameModuleSameBytes) {
  mlir::OwningOpRef<mlir::ModuleOp> one = planned("batch=2,seq=3"), two = planned("batch=2,seq=3");
  ASSERT_TRUE(one && two);
  StatusOr<std::string> first = compileToExecutable(*one, {}), second = compileToExecutable(*two, {});
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(*first, *second);
}

TEST_F(CompileTest, UnplannedModuleIsRefused) {
  mlir::OwningOpRef<mlir::ModuleOp> module = mlir::parseSourceString<mlir::ModuleOp>(
      "sluice.graph @logits(%x: tensor<2xf32>) { sluice.return %x [\"y\"] : tensor<2xf32> }", &context);
  ASSERT_TRUE(module);
  StatusOr<std::string> bytes = compileToExecutable(*module, {});
  ASSERT_FALSE(bytes.ok());
  EXPECT_NE(std::string(bytes.status().message()).find("run the plan phase first"), std::string::npos);
}

} // namespace
} // namespace sluice
