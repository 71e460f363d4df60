#include "frontends/decoder/BuildDecoder.h"

#include "dialects/sluice/Dims.h"
#include "dialects/sluice/JsonAttributes.h"
#include "dialects/sluice/Sluice.h"

#include "mlir/IR/Verifier.h"

#include <cmath>
#include <functional>

using namespace mlir;

namespace sluice {
namespace {

/// Emits one decoder. Every value gets a name location, so that printed graphs read like the model.
class DecoderBuilder {
public:
  DecoderBuilder(OpBuilder &builder, const DecoderConfig &config)
      : builder(builder), config(config), f32(builder.getF32Type()) {}

  /// The graph's body: returns logits and the summed cross-entropy.
  std::pair<Value, Value> build(Value tokens, Value targetIds) {
    targets = targetIds;
    Value table;
    auto embedded = scope("embed", "embedding", [&] {
      Value weight = param("weight", "embedding", {config.vocabulary, config.width}, normal(),
                           "model.embed_tokens.weight");
      return SmallVector<Value>{EmbeddingOp::create(builder, at("embedding"), tokens, weight), weight};
    });
    table = embedded[1];
    Value x = repeat(embedded[0]);
    x = scope("norm", "norm", [&] { return SmallVector<Value>{norm(x, "gain", "model.norm.weight")}; })[0];
    Value logits = scope("head", "head", [&] {
      Value weight = config.tied ? table
                                 : param("weight", "head", {config.vocabulary, config.width}, normal(),
                                         "lm_head.weight");
      return SmallVector<Value>{linear("logits", x, weight, Value())};
    })[0];
    Value loss = scope("loss", "loss", [&] {
      return SmallVector<Value>{CrossEntropyOp::create(builder, at("loss_sum"), logits, targets)};
    })[0];
    return {logits, loss};
  }

private:
  Location at(StringRef name) { return NameLoc::get(builder.getStringAttr(name)); }
  Attribute normal() {
    return NormalAttr::get(builder.getContext(), builder.getF64FloatAttr(config.initStandardDeviation));
  }
  Attribute fill(double value) { return FillAttr::get(builder.getContext(), builder.getF64FloatAttr(value)); }

  Value param(StringRef name, StringRef role, ArrayRef<int64_t> shape, Attribute init, StringRef checkpoint) {
    return ParamOp::create(builder, at(name), RankedTensorType::get(shape, f32), builder.getStringAttr(name),
                           init, builder.getStringAttr(role), builder.getStringAttr(checkpoint), BoolAttr());
  }

  Value linear(StringRef name, Value x, Value weight, Value bias) {
    return LinearOp::create(builder, at(name), x, weight, bias, Value());
  }
  /// A linear layer with its own weight, and bias if `biased`. `hf` is the checkpoint name without ".weight".
  Value linear(StringRef name, StringRef weightName, StringRef role, Value x, int64_t in, int64_t out,
               StringRef hf, bool biased) {
    Value weight = param(weightName, role, {out, in}, normal(), (hf + ".weight").str());
    Value bias =
        biased ? param((weightName + "_bias").str(), "bias", {out}, fill(0), (hf + ".bias").str()) : Value();
    return linear(name, x, weight, bias);
  }

  Value norm(Value x, StringRef name, StringRef checkpoint) {
    Value gain = param(name, "norm", {config.width}, fill(1), checkpoint);
    return RmsNormOp::create(builder, at("normalized"), x, gain, builder.getF64FloatAttr(config.normEpsilon))
        .getY();
  }

  /// A named scope around what `body` builds; the returned values leave it.
  SmallVector<Value> scope(StringRef name, StringRef role, function_ref<SmallVector<Value>()> body) {
    // The result types are known only after the body is built, so the body is built in a detached block
    // first.
    auto block = std::make_unique<Block>();
    SmallVector<Value> values;
    {
      OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPointToStart(block.get());
      values = body();
      YieldOp::create(builder, at(name), values);
    }
    auto op = ScopeOp::create(builder, at(name), ValueRange(values).getTypes(), builder.getStringAttr(name),
                              builder.getStringAttr(role));
    op.getBody().push_back(block.release());
    return SmallVector<Value>(op.getResults());
  }

  Value attention(Value x) {
    std::string hf = "model.layers.{layer}.self_attn.";
    int64_t q = config.heads * config.headDim, kv = config.kvHeads * config.headDim;
    Value n = norm(x, "norm", "model.layers.{layer}.input_layernorm.weight");
    auto project = [&](StringRef name, StringRef weight, int64_t out, StringRef tensor) {
      return linear(name, weight, "attention", n, config.width, out, hf + tensor.str(), config.attentionBias);
    };
    Value query = project("q", "wq", q, "q_proj"), key = project("k", "wk", kv, "k_proj"),
          value = project("v", "wv", kv, "v_proj");
    auto rope = [&](StringRef name, Value input, int64_t heads) {
      return RopeOp::create(builder, at(name), input, builder.getI64IntegerAttr(heads),
                            builder.getF64FloatAttr(config.ropeTheta), builder.getBoolAttr(false));
    };
    auto out = AttentionOp::create(
        builder, at("attended"), rope("q_rotated", query, config.heads),
        rope("k_rotated", key, config.kvHeads), value, builder.getI64IntegerAttr(config.heads),
        builder.getI64IntegerAttr(config.kvHeads), builder.getBoolAttr(true),
        builder.getF64FloatAttr(1.0 / std::sqrt(static_cast<double>(config.headDim))));
    return linear("attention_out", "wo", "attention", out.getOut(), q, config.width, hf + "o_proj",
                  config.attentionBias);
  }

  /// gate, up, SwiGLU, down: the same for a dense MLP and for one expert.
  Value gated(Value x, StringRef role, int64_t ffn, const std::string &gate, const std::string &up,
              const std::string &down) {
    Value g = linear("gate", "w_gate", role, x, config.width, ffn, gate, config.mlpBias);
    Value u = linear("up", "w_up", role, x, config.width, ffn, up, config.mlpBias);
    Value act = SwiGluOp::create(builder, at("activated"), g, u);
    return linear("down", "w_down", role, act, ffn, config.width, down, config.mlpBias);
  }

  Value mlp(Value x) {
    std::string hf = "model.layers.{layer}.mlp.";
    Value n = norm(x, "norm", "model.layers.{layer}.post_attention_layernorm.weight");
    return gated(n, "mlp", config.ffn, hf + "gate_proj", hf + "up_proj", hf + "down_proj");
  }

  Value moe(Value x) {
    const MoeConfig &moe = *config.moe;
    std::string hf = "model.layers.{layer}.block_sparse_moe.";
    Value n = norm(x, "norm", "model.layers.{layer}.post_attention_layernorm.weight");
    Value routing, gates;
    SmallVector<Value> routed = scope("router", "router", [&] {
      Value logits =
          linear("router_logits", "weight", "router", n, config.width, moe.experts, hf + "gate", false);
      auto route =
          RouteOp::create(builder, at("routing"), logits, builder.getI64IntegerAttr(moe.topK),
                          builder.getStringAttr(moe.score), builder.getBoolAttr(moe.renormalize),
                          builder.getF64FloatAttr(moe.renormalizeEpsilon), builder.getF64FloatAttr(moe.scale),
                          builder.getBoolAttr(moe.allowConstantGate));
      auto ignore = builder.getI64IntegerAttr(-100);
      if (config.balanceWeight != 0) {
        Value loss =
            SwitchBalanceOp::create(builder, at("balance"), route.getProbabilities(), route.getRouting(),
                                    targets, builder.getBoolAttr(moe.score == "sigmoid"), ignore);
        AuxiliaryLossOp::create(builder, at("balance"), builder.getStringAttr("balance"), loss,
                                builder.getF64FloatAttr(config.balanceWeight));
      }
      if (config.routerZWeight != 0) {
        Value loss = RouterZOp::create(builder, at("router_z"), logits, targets, ignore);
        AuxiliaryLossOp::create(builder, at("router_z"), builder.getStringAttr("router_z"), loss,
                                builder.getF64FloatAttr(config.routerZWeight));
      }
      Value statistics = RoutingStatisticsOp::create(
          builder, at("statistics"), logits, route.getProbabilities(), route.getRouting(), targets, ignore);
      ObserveOp::create(builder, at("routing"), builder.getStringAttr("routing"), statistics);
      return SmallVector<Value>{route.getRouting(), route.getGates()};
    });
    routing = routed[0], gates = routed[1];
    return scope("experts", "expert", [&] {
      Value rows = DispatchOp::create(builder, at("rows"), n, routing, Value());
      auto experts = ExpertsOp::create(builder, at("experts"), rows.getType(), routing, rows);
      Block &body = experts.getBody().emplaceBlock();
      Value row = body.addArgument(rows.getType(), at("row"));
      {
        OpBuilder::InsertionGuard guard(builder);
        builder.setInsertionPointToStart(&body);
        std::string expert = hf + "experts.{expert}.";
        Value out = gated(row, "expert", moe.ffn, expert + "w1", expert + "w3", expert + "w2");
        YieldOp::create(builder, at("experts"), out);
      }
      return SmallVector<Value>{
          CombineOp::create(builder, at("combined"), experts.getResult(0), routing, gates)};
    })[0];
  }

  Value repeat(Value x) {
    auto op = RepeatOp::create(builder, at("layers"), x.getType(), builder.getStringAttr("layers"),
                               builder.getI64IntegerAttr(config.layers), x);
    Block &body = op.getBody().emplaceBlock();
    Value input = body.addArgument(x.getType(), at("x"));
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(&body);
    Value attended = scope("attn", "attention", [&] { return SmallVector<Value>{attention(input)}; })[0];
    Value middle = AddOp::create(builder, at("middle"), input, attended);
    Value fed = config.moe ? scope("moe", "expert", [&] { return SmallVector<Value>{moe(middle)}; })[0]
                           : scope("mlp", "mlp", [&] { return SmallVector<Value>{mlp(middle)}; })[0];
    Value out = AddOp::create(builder, at("out"), middle, fed);
    YieldOp::create(builder, at("layers"), out);
    return op.getResult(0);
  }

  OpBuilder &builder;
  const DecoderConfig &config;
  Type f32;
  Value targets;
};

} // namespace

llvm::json::Object huggingFaceConfig(const DecoderConfig &config) {
  bool mixtral = config.moe.has_value();
  // The family is chosen by semantics: a file must never load elsewhere and compute something else.
  bool foreign =
      mixtral && (config.moe->score != "softmax" || !config.moe->renormalize || config.moe->scale != 1 ||
                  config.moe->renormalizeEpsilon != 0 || config.attentionBias || config.mlpBias);
  llvm::json::Object object{
      {"architectures", llvm::json::Array{foreign   ? "SluiceForCausalLM"
                                          : mixtral ? "MixtralForCausalLM"
                                                    : "LlamaForCausalLM"}},
      {"model_type", foreign   ? "sluice"
                     : mixtral ? "mixtral"
                               : "llama"},
      {"vocab_size", config.vocabulary},
      {"hidden_size", config.width},
      {"num_hidden_layers", config.layers},
      {"num_attention_heads", config.heads},
      {"num_key_value_heads", config.kvHeads},
      {"head_dim", config.headDim},
      {"intermediate_size", mixtral ? config.moe->ffn : config.ffn},
      {"hidden_act", "silu"},
      {"rms_norm_eps", config.normEpsilon},
      {"rope_theta", config.ropeTheta},
      {"rope_parameters", llvm::json::Object{{"rope_theta", config.ropeTheta}, {"rope_type", "default"}}},
      {"initializer_range", config.initStandardDeviation},
      {"tie_word_embeddings", config.tied},
      {"max_position_embeddings", config.maxPositions},
      {"torch_dtype", "float32"},
      {"dtype", "float32"},
  };
  if (mixtral) {
    object["num_local_experts"] = config.moe->experts;
    object["num_experts_per_tok"] = config.moe->topK;
    object["router_aux_loss_coef"] = config.balanceWeight;
    object["output_router_logits"] = false;
    object["sliding_window"] = nullptr;
  }
  if (foreign) {
    object["score"] = config.moe->score;
    object["norm_topk_prob"] = config.moe->renormalize;
    object["norm_topk_epsilon"] = config.moe->renormalizeEpsilon;
    object["routed_scaling_factor"] = config.moe->scale;
  }
  if (!mixtral || foreign) {
    object["attention_bias"] = config.attentionBias;
    object["mlp_bias"] = config.mlpBias;
  }
  return object;
}

StatusOr<OwningOpRef<ModuleOp>> buildDecoder(MLIRContext &context, const DecoderConfig &config,
                                             const llvm::json::Object &training) {
  SLUICE_RETURN_IF_ERROR(checkDecoder(config));
  OpBuilder builder(&context);
  Location loc = NameLoc::get(builder.getStringAttr(config.name));
  OwningOpRef<ModuleOp> module = ModuleOp::create(loc, config.name);
  (*module)->setAttr("sluice.training", jsonToAttribute(&context, llvm::json::Object(training)));
  (*module)->setAttr("sluice.model_config", jsonToAttribute(&context, huggingFaceConfig(config)));
  builder.setInsertionPointToEnd(module->getBody());

  RankedTensorType ids = tensorOf({Dim(std::string("batch")), Dim(std::string("seq"))}, builder.getI32Type());
  auto graph = GraphOp::create(builder, loc, builder.getStringAttr("model"),
                               builder.getStrArrayAttr({"tokens", "targets"}));
  Block &body = graph.getBody().emplaceBlock();
  Value tokens = body.addArgument(ids, NameLoc::get(builder.getStringAttr("tokens")));
  Value targets = body.addArgument(ids, NameLoc::get(builder.getStringAttr("targets")));
  builder.setInsertionPointToStart(&body);
  auto [logits, loss] = DecoderBuilder(builder, config).build(tokens, targets);
  ReturnOp::create(builder, loc, ValueRange{logits, loss}, builder.getStrArrayAttr({"logits", "loss_sum"}));
  if (failed(verify(*module)))
    return failure("the graph of '", config.name, "' does not verify; the reason is above");
  return module;
}

} // namespace sluice
