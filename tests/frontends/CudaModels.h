// Small models on the simulated CUDA device: what tests of whole steps share.
#pragma once

#include "frontends/cli/Compiler.h"
#include "runtime/executor/Session.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <fstream>
#include <random>
#include <unistd.h>

namespace sluice::cli {

inline const std::string simulator = std::string(SLUICE_BINARY_DIR) + "/libsluice_cudasim.so";

inline const Status &statusOf(const Status &status) {
  return status;
}
template <typename T> const Status &statusOf(const StatusOr<T> &value) {
  return value.status();
}

#define REQUIRE_OK(expression) ASSERT_TRUE(statusOf(expression).ok()) << statusOf(expression)

struct Model {
  const char *name;
  std::vector<std::string> settings; // of --set
};

inline const std::string spec = R"(model:
  vocabulary: 61
  width: 24
  layers: 2
  heads: 4
  kv_heads: 2
  ffn: 40
train:
  batch: 2
  seq: 19
)";

inline StatusOr<Executable> compileModel(const Model &model, std::vector<std::string> targets) {
  const std::string path = concat(testing::TempDir(), "/cuda-train-", ::getpid(), ".yaml");
  std::ofstream(path) << spec;
  Compiler compiler;
  SLUICE_ASSIGN_OR_RETURN(LoadedModel loaded, compiler.load(path, model.settings));
  CompilerOptions options;
  options.cudaTargets = std::move(targets);
  SLUICE_ASSIGN_OR_RETURN(std::string bytes, compiler.compile(loaded, options));
  return parseExecutable(std::move(bytes), model.name);
}

template <typename Function> Function *simulatorFunction(const char *name) {
  static void *library = ::dlopen(simulator.c_str(), RTLD_NOW);
  return reinterpret_cast<Function *>(::dlsym(library, name));
}

/// Settings of the simulated driver (docs/cuda-simulator.md).
inline void configure(const std::string &settings) {
  ASSERT_EQ(simulatorFunction<int(const char *)>("cudasimConfigure")(settings.c_str()), 0) << settings;
}

inline std::string findings() {
  return simulatorFunction<const char *()>("cudasimFindings")();
}

/// The tokens of step `step`, and the targets; some are not counted.
struct Batch {
  std::vector<int32_t> tokens, targets;
  explicit Batch(int step, size_t count) {
    std::mt19937 generator(static_cast<unsigned>(step) * 97 + 5);
    int32_t token = 3;
    for (size_t i = 0; i < count; ++i) {
      tokens.push_back(token);
      // Half of the text can be learned.
      token = static_cast<int32_t>(generator() % 2 ? (token * 7 + 11) % 61 : generator() % 61);
      targets.push_back(i % 9 == 8 ? -100 : token);
    }
  }
};

inline Status setInputs(Session &session, int step) {
  SLUICE_ASSIGN_OR_RETURN(const Operand *place, session.input("accumulate", "tokens"));
  const Batch batch(step, static_cast<size_t>(place->elements()));
  SLUICE_RETURN_IF_ERROR(session.setInput<int32_t>("accumulate", "tokens", batch.tokens));
  return session.setInput<int32_t>("accumulate", "targets", batch.targets);
}

inline Status applyStep(Session &session, int step) {
  SLUICE_ASSIGN_OR_RETURN(float tokens, session.scalarOutput("accumulate", "tokens"));
  const float rate = 1e-2f, number = static_cast<float>(step);
  SLUICE_RETURN_IF_ERROR(session.setInput<float>("apply", "learning_rate", {&rate, 1}));
  SLUICE_RETURN_IF_ERROR(session.setInput<float>("apply", "step", {&number, 1}));
  SLUICE_RETURN_IF_ERROR(session.setInput<float>("apply", "tokens", {&tokens, 1}));
  return session.run("apply");
}

/// One whole step; returns the mean loss.
inline StatusOr<double> trainStep(Session &session, int step) {
  SLUICE_RETURN_IF_ERROR(setInputs(session, step));
  SLUICE_RETURN_IF_ERROR(session.run("accumulate"));
  SLUICE_ASSIGN_OR_RETURN(float sum, session.scalarOutput("accumulate", "loss_sum"));
  SLUICE_ASSIGN_OR_RETURN(float tokens, session.scalarOutput("accumulate", "tokens"));
  SLUICE_RETURN_IF_ERROR(applyStep(session, step));
  return static_cast<double>(sum) / tokens;
}

inline const std::vector<std::string> four = {"model.moe.experts=4", "model.moe.top_k=2", "model.moe.ffn=20",
                                              "losses.balance=0.01", "losses.router_z=0.001"},
                                      sixteen = {"model.moe.experts=16", "model.moe.top_k=4",
                                                 "model.moe.ffn=12",     "model.moe.shared_ffn=20",
                                                 "losses.balance=0.01",  "losses.router_z=0.001"};

inline std::vector<std::string> with(std::vector<std::string> settings, const std::string &one) {
  settings.push_back(one);
  return settings;
}

/// Dense, and with experts: 4 top-2; 16 top-4 with a shared expert. Tied and untied.
inline std::vector<Model> cudaModels() {
  return {{"DenseTied", {"model.tied=true"}},
          {"DenseUntied", {"model.tied=false"}},
          {"MoeFourTied", with(four, "model.tied=true")},
          {"MoeFourUntied", with(four, "model.tied=false")},
          {"MoeSixteenSharedTied", with(sixteen, "model.tied=true")},
          {"MoeSixteenSharedUntied", with(sixteen, "model.tied=false")}};
}

} // namespace sluice::cli
