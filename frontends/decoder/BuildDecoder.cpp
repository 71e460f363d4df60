#include "frontends/decoder/BuildDecoder.h"

#include "dialects/sluice/Dims.h"
#include "dialects/sluice/JsonAttributes.h"
#include "frontends/decoder/GraphParts.h"

#include "mlir/IR/Verifier.h"

using namespace mlir;

namespace sluice {
namespace {

/// Embedding, scale and learned positions; also returns the table, which a tied head shares.
std::pair<Value, Value> buildEmbedding(GraphParts &parts, Value tokens) {
  const DecoderConfig &config = parts.config;
  auto embedded = parts.scope("embed", "embedding", [&] {
    Value table = parts.param("weight", "embedding", {config.vocabulary, config.width}, parts.normal(),
                              config.names.embedding + ".weight");
    Value x = EmbeddingOp::create(parts.builder, parts.at("embedding"), tokens, table);
    if (config.embeddingScale != 1)
      x = ScaleOp::create(parts.builder, parts.at("embedding_scaled"), x,
                          parts.number(config.embeddingScale));
    return SmallVector<Value>{x, table};
  });
  Value x = embedded[0];
  if (config.learnedPositions > 0)
    x = parts.scope("positions", "position", [&] {
      Value table = parts.param("weight", "position", {config.learnedPositions, config.width}, parts.normal(),
                                config.names.positions + ".weight");
      return SmallVector<Value>{PositionEmbeddingOp::create(parts.builder, parts.at("positioned"), x, table)};
    })[0];
  return {x, embedded[1]};
}

Value buildLayer(GraphParts &parts, Value x, const LayerConfig &layer, Value targets) {
  auto attend = [&](Value input) {
    return parts.scope("attn", "attention",
                       [&] { return SmallVector<Value>{buildAttention(parts, input, layer)}; })[0];
  };
  auto feed = [&](Value input) {
    if (layer.experts)
      return parts.scope("moe", "expert",
                         [&] { return SmallVector<Value>{buildMoe(parts, input, targets)}; })[0];
    return parts.scope("mlp", "mlp", [&] { return SmallVector<Value>{buildMlp(parts, input)}; })[0];
  };
  Value middle = AddOp::create(parts.builder, parts.at("middle"), x, attend(x));
  Value fed = feed(parts.config.parallelResidual ? x : middle);
  return AddOp::create(parts.builder, parts.at("out"), middle, fed);
}

/// One repeat for each run of equal layers.
Value buildLayers(GraphParts &parts, Value x, Value targets) {
  const std::vector<LayerConfig> plan = layerPlan(parts.config);
  for (size_t first = 0, end = 0; first < plan.size(); first = end) {
    while (end < plan.size() && plan[end] == plan[first])
      ++end;
    auto op = RepeatOp::create(parts.builder, parts.at("layers"), x.getType(),
                               parts.builder.getStringAttr("layers"),
                               parts.integer(static_cast<int64_t>(end - first)), x,
                               first ? parts.integer(static_cast<int64_t>(first)) : IntegerAttr());
    Block &body = op.getBody().emplaceBlock();
    Value input = body.addArgument(x.getType(), parts.at("x"));
    OpBuilder::InsertionGuard guard(parts.builder);
    parts.builder.setInsertionPointToStart(&body);
    YieldOp::create(parts.builder, parts.at("layers"), buildLayer(parts, input, plan[first], targets));
    x = op.getResult(0);
  }
  return x;
}

/// The graph's body: returns logits and the summed cross-entropy.
std::pair<Value, Value> buildModel(GraphParts &parts, Value tokens, Value targets) {
  const DecoderConfig &config = parts.config;
  auto [x, table] = buildEmbedding(parts, tokens);
  Value hidden = buildLayers(parts, x, targets);
  hidden = parts.scope("norm", "norm", [&] {
    return SmallVector<Value>{parts.norm("normalized", hidden, "gain", config.width, config.names.finalNorm)};
  })[0];
  Value shared = table;
  Value logits = parts.scope("head", "head", [&] {
    Value weight = config.tied ? shared
                               : parts.param("weight", "head", {config.vocabulary, config.width},
                                             parts.normal(), config.names.head + ".weight");
    Value y = LinearOp::create(parts.builder, parts.at("logits"), hidden, weight, Value(), Value());
    if (config.logitSoftcap != 0)
      y = parts.softcap("logits", y, config.logitSoftcap);
    return SmallVector<Value>{y};
  })[0];
  Value loss = parts.scope("loss", "loss", [&] {
    return SmallVector<Value>{CrossEntropyOp::create(parts.builder, parts.at("loss_sum"), logits, targets)};
  })[0];
  return {logits, loss};
}

} // namespace

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
  GraphParts parts(builder, config);
  auto [logits, loss] = buildModel(parts, tokens, targets);
  ReturnOp::create(builder, loc, ValueRange{logits, loss}, builder.getStrArrayAttr({"logits", "loss_sum"}));
  if (!config.sparsity.empty())
    SLUICE_RETURN_IF_ERROR(applySparsity(*module, config.sparsity));
  if (failed(verify(*module)))
    return failure("the graph of '", config.name, "' does not verify; the reason is above");
  return module;
}

} // namespace sluice
