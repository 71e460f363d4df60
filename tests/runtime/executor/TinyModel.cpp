#include "tests/runtime/executor/TinyModel.h"

namespace sluice::testing {
namespace {

/// Gives out places in arenas, 64-byte aligned.
class Layout {
public:
  Operand place(int arena, ElementType type, std::vector<int64_t> shape) {
    Operand operand{type, std::move(shape), arena, used[arena]};
    used[arena] += (operand.bytes() + 63) / 64 * 64;
    return operand;
  }
  uint64_t bytes(int arena) const { return used[arena]; }

private:
  uint64_t used[5] = {};
};

enum ArenaIndex { Parameters, Gradients, Optimizer, Activations, Io };

/// Appends commands, each depending on the one before it.
struct Program {
  EntryPoint entry;
  void add(std::string kind, std::string origin, std::vector<Operand> inputs, std::vector<Operand> outputs,
           std::vector<CommandAttribute> attributes = {}, std::string flops = "0") {
    std::vector<uint32_t> dependencies;
    if (!entry.commands.empty())
      dependencies.push_back(static_cast<uint32_t>(entry.commands.size() - 1));
    entry.commands.push_back({std::move(kind), std::move(origin), std::move(inputs), std::move(outputs),
                              std::move(attributes), std::move(dependencies)});
    entry.flops.push_back(std::move(flops));
  }
};

constexpr int64_t one = 1, zero = 0, ignoreIndex = -100;

} // namespace

ExecutableDescription tinyModel(const TinyModel &options) {
  const int64_t B = options.batch, S = options.sequence, V = options.vocabulary, d = options.width, T = B * S;
  const int64_t E = options.experts, K = 2;
  Layout layout;
  ExecutableDescription model;
  model.producer = "tests";
  model.model = "tiny";
  model.bindings = {{"batch", B}, {"seq", S}};
  model.targets = {"cpu"};
  model.ledger = R"({"parameters":{"total":"2048","active":"2048"}})";
  model.modelConfig = concat(R"({"vocab_size":)", V, R"(,"hidden_size":)", d, "}");
  model.training = options.training;

  auto parameter = [&](const char *name, std::vector<int64_t> shape, const char *checkpointName) {
    StateTensor state;
    auto add = [&](TensorRole role, const char *suffix, int arena) {
      state.name = concat(name, suffix);
      state.role = role;
      state.parameter = role == TensorRole::Parameter ? "" : name;
      state.checkpointName = role == TensorRole::Parameter ? checkpointName : "";
      state.place = layout.place(arena, ElementType::F32, shape);
      state.decay = role == TensorRole::Parameter;
      model.tensors.push_back(state);
      return state.place;
    };
    std::vector<Operand> places = {add(TensorRole::Parameter, "", Parameters),
                                   add(TensorRole::ExpAvg, "/exp_avg", Optimizer),
                                   add(TensorRole::ExpAvgSq, "/exp_avg_sq", Optimizer),
                                   add(TensorRole::Gradient, "/gradient", Gradients)};
    return places; // in adamw's order
  };
  auto embed = parameter("embed", {V, d}, "model.embed_tokens.weight");
  auto head = parameter("head", {V, d}, "lm_head.weight");
  std::vector<std::vector<Operand>> parameters = {embed, head};
  std::vector<Operand> router;
  if (E > 0) {
    router = parameter("layers.0.moe.gate", {E, d},
                       "model.layers.0.block_sparse_moe.experts.{expert}.gate.weight");
    parameters.push_back(router);
  }

  auto scalar = [&](ElementType type = ElementType::F32) { return layout.place(Io, type, {1}); };
  Operand seed = scalar(ElementType::I64), lossSum = scalar(), tokenCount = scalar(), norm = scalar(),
          rate = scalar(), step = scalar(), stepTokens = scalar(), balance = scalar();
  Operand tokens = layout.place(Io, ElementType::I32, {B, S}),
          targets = layout.place(Io, ElementType::I32, {B, S});
  Operand statistics = layout.place(Io, ElementType::F32, {E + 4});
  Operand oneTokens = layout.place(Io, ElementType::I32, {1, S});
  Operand oneLogits = layout.place(Io, ElementType::F32, {1, S, V});
  Operand hidden = layout.place(Activations, ElementType::F32, {T, d});
  Operand dhidden = layout.place(Activations, ElementType::F32, {T, d});
  Operand logits = layout.place(Activations, ElementType::F32, {T, V});
  Operand dlogits = layout.place(Activations, ElementType::F32, {T, V});
  Operand unit = layout.place(Activations, ElementType::F32, {1});
  Operand routerLogits = layout.place(Activations, ElementType::F32, {T, E});
  Operand probs = layout.place(Activations, ElementType::F32, {T, E});
  Operand gates = layout.place(Activations, ElementType::F32, {T, K});
  Operand routing = layout.place(Activations, ElementType::I32, {3 * T * K + E + 1});
  const std::vector<CommandAttribute> ignore = {{"ignore_index", ignoreIndex}};

  Program init;
  init.entry.name = "init";
  init.entry.inputs = {{"seed", seed}};
  for (size_t index = 0; index < parameters.size(); ++index) {
    const char *stream = index == 0 ? "embed" : index == 1 ? "head" : "gate";
    init.add("random_normal", stream, {seed}, {parameters[index][0]},
             {{"stream", std::string(stream)}, {"mean", 0.0}, {"standard_deviation", 0.05}});
    for (int moment = 1; moment <= 3; ++moment)
      init.add("fill", stream, {}, {parameters[index][moment]}, {{"value", 0.0}});
  }

  auto forward = [&](Program &program, const Operand &ids, const Operand &h, const Operand &out,
                     int64_t rows) {
    program.add("embedding", "embed", {ids, embed[0]}, {h});
    program.add("gemm", "head", {h, head[0]}, {out},
                {{"transpose_a", zero}, {"transpose_b", one}, {"accumulate", zero}, {"parameter_b", one}},
                concat(2 * rows * V * d));
  };
  auto routes = [&](Program &program) {
    if (E == 0)
      return;
    program.add("gemm", "layers.0.moe", {hidden, router[0]}, {routerLogits},
                {{"transpose_a", zero}, {"transpose_b", one}, {"accumulate", zero}, {"parameter_b", one}},
                concat(2 * T * E * d));
    program.add("route", "layers.0.moe", {routerLogits}, {routing, gates, probs},
                {{"top_k", K}, {"score", zero}, {"renormalize", one}, {"epsilon", 0.0}, {"scale", 1.0}});
    program.add("routing_statistics", "layers.0.moe", {routerLogits, probs, routing, targets}, {statistics},
                {{"top_k", K}, {"ignore_index", ignoreIndex}});
    program.entry.outputs.push_back({"routing/layers.0.moe", statistics});
  };

  Program accumulate;
  accumulate.entry.name = "accumulate";
  accumulate.entry.inputs = {{"tokens", tokens}, {"targets", targets}};
  accumulate.entry.outputs = {{"loss_sum", lossSum}, {"tokens", tokenCount}};
  forward(accumulate, tokens, hidden, logits, T);
  routes(accumulate);
  if (E > 0) {
    accumulate.add("switch_balance", "layers.0.moe", {probs, routing, targets}, {balance},
                   {{"top_k", K}, {"normalize", zero}, {"ignore_index", ignoreIndex}});
    accumulate.entry.outputs.push_back({"auxiliary/balance", balance});
  }
  accumulate.add("cross_entropy", "loss", {logits, targets}, {lossSum}, ignore);
  accumulate.add("count_targets", "loss", {targets}, {tokenCount}, ignore);
  accumulate.add("fill", "loss", {}, {unit}, {{"value", 1.0}});
  accumulate.add("cross_entropy_gradient", "loss", {logits, targets, unit}, {dlogits}, ignore);
  accumulate.add("gemm", "head", {dlogits, head[0]}, {dhidden},
                 {{"transpose_a", zero}, {"transpose_b", zero}, {"accumulate", zero}, {"parameter_b", one}},
                 concat(2 * T * V * d));
  accumulate.add("gemm", "head", {dlogits, hidden}, {head[3]},
                 {{"transpose_a", one}, {"transpose_b", zero}, {"accumulate", one}, {"parameter_b", zero}},
                 concat(2 * T * V * d));
  accumulate.add("embedding_gradient", "embed", {tokens, dhidden}, {embed[3]}, {{"accumulate", one}});

  Program apply;
  apply.entry.name = "apply";
  apply.entry.inputs = {{"learning_rate", rate}, {"step", step}, {"tokens", stepTokens}};
  apply.entry.outputs = {{"gradient_norm", norm}};
  std::vector<Operand> gradients;
  for (auto &places : parameters)
    gradients.push_back(places[3]);
  apply.add("global_norm", "optimizer", gradients, {norm});
  for (auto &places : parameters)
    apply.add("adamw", "optimizer",
              {places[0], places[1], places[2], places[3], rate, step, stepTokens, norm},
              {places[0], places[1], places[2], places[3]},
              {{"beta1", 0.9}, {"beta2", 0.95}, {"epsilon", 1e-8}, {"weight_decay", 0.1}, {"clip", 1.0}});
  apply.add("refresh_derived_state", "optimizer", {}, {});

  Program eval;
  eval.entry.name = "eval";
  eval.entry.inputs = {{"tokens", tokens}, {"targets", targets}};
  eval.entry.outputs = {{"loss_sum", lossSum}, {"tokens", tokenCount}};
  forward(eval, tokens, hidden, logits, T);
  routes(eval);
  eval.add("cross_entropy", "loss", {logits, targets}, {lossSum}, ignore);
  eval.add("count_targets", "loss", {targets}, {tokenCount}, ignore);

  Program next;
  next.entry.name = "logits";
  next.entry.bindings = {{"batch", 1}};
  next.entry.inputs = {{"tokens", oneTokens}};
  next.entry.outputs = {{"logits", oneLogits}};
  Operand oneHidden = hidden, oneOut = oneLogits;
  oneHidden.shape = {S, d};
  oneOut.shape = {S, V};
  forward(next, oneTokens, oneHidden, oneOut, S);

  model.entries = {init.entry, accumulate.entry, apply.entry, eval.entry, next.entry};
  model.arenas = {{"parameters", layout.bytes(Parameters), ArenaClass::Parameters},
                  {"gradients", layout.bytes(Gradients), ArenaClass::Gradients},
                  {"optimizer", layout.bytes(Optimizer), ArenaClass::Optimizer},
                  {"activations", layout.bytes(Activations), ArenaClass::Activations},
                  {"io", layout.bytes(Io), ArenaClass::Io}};
  return model;
}

} // namespace sluice::testing
