#include "frontends/decoder/GraphParts.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace sluice {

Attribute GraphParts::normal() {
  return NormalAttr::get(builder.getContext(), number(config.initStandardDeviation));
}
Attribute GraphParts::fill(double value) {
  return FillAttr::get(builder.getContext(), number(value));
}

Value GraphParts::param(StringRef name, StringRef role, ArrayRef<int64_t> shape, Attribute init,
                        const std::string &checkpoint) {
  return ParamOp::create(builder, at(name), RankedTensorType::get(shape, f32), builder.getStringAttr(name),
                         init, builder.getStringAttr(role), builder.getStringAttr(checkpoint), BoolAttr());
}

Value GraphParts::linear(StringRef name, StringRef weight, StringRef role, Value x, int64_t in, int64_t out,
                         const std::string &checkpoint, bool biased) {
  SmallVector<int64_t> shape = {out, in};
  if (config.transposedWeights)
    std::swap(shape[0], shape[1]);
  Value w = param(weight, role, shape, normal(), checkpoint + ".weight");
  Value bias =
      biased ? param((weight + "_bias").str(), "bias", {out}, fill(0), checkpoint + ".bias") : Value();
  if (!config.transposedWeights)
    return LinearOp::create(builder, at(name), x, w, bias, Value());
  Value product = ContractOp::create(builder, at(name), x, w, builder.getStringAttr("bsi,io->bso"));
  if (!biased)
    return product;
  return buildMap(builder, at(name), {product, bias}, [](OpBuilder &inner, Location loc, ValueRange s) {
    return Scalars(inner, loc).add(s[0], s[1]);
  });
}

Value GraphParts::norm(StringRef name, Value x, StringRef weight, int64_t width,
                       const std::string &checkpoint) {
  FloatAttr epsilon = number(config.normEpsilon);
  if (config.norm == NormKind::LayerPlain)
    return LayerNormOp::create(builder, at(name), x, Value(), Value(), epsilon).getY();
  const bool offset = config.norm == NormKind::RmsUnitOffset;
  Value gain = param(weight, "norm", {width}, fill(offset ? 0 : 1), checkpoint + ".weight");
  if (config.norm == NormKind::Layer) {
    Value bias = param((weight + "_bias").str(), "norm", {width}, fill(0), checkpoint + ".bias");
    return LayerNormOp::create(builder, at(name), x, gain, bias, epsilon).getY();
  }
  if (offset)
    gain = buildMap(builder, at("gain_plus_one"), gain, [](OpBuilder &inner, Location loc, ValueRange s) {
      Scalars scalars(inner, loc);
      return scalars.add(s[0], scalars.constant(1, s[0].getType()));
    });
  return RmsNormOp::create(builder, at(name), x, gain, epsilon).getY();
}

Value GraphParts::rmsNorm(StringRef name, Value x, StringRef weight, int64_t width, double epsilon,
                          const std::string &checkpoint) {
  Value gain = param(weight, "norm", {width}, fill(1), checkpoint + ".weight");
  return RmsNormOp::create(builder, at(name), x, gain, number(epsilon)).getY();
}

Value GraphParts::splitHeads(StringRef name, Value x, int64_t heads, int64_t dim) {
  return ReshapeOp::create(builder, at(name), x, builder.getDenseI64ArrayAttr({-2, -2, heads, dim}));
}
Value GraphParts::joinHeads(StringRef name, Value x, int64_t heads, int64_t dim) {
  return ReshapeOp::create(builder, at(name), x, builder.getDenseI64ArrayAttr({-2, -2, heads * dim}));
}

Value GraphParts::slice(StringRef name, Value x, int64_t offset, int64_t size) {
  SmallVector<int64_t> offsets(cast<RankedTensorType>(x.getType()).getRank(), 0), sizes(offsets.size(), -1);
  offsets.back() = offset, sizes.back() = size;
  return SliceOp::create(builder, at(name), x, builder.getDenseI64ArrayAttr(offsets),
                         builder.getDenseI64ArrayAttr(sizes));
}

Value GraphParts::softcap(StringRef name, Value x, double cap) {
  x = ScaleOp::create(builder, at(name), x, number(1 / cap));
  x = ActivationOp::create(builder, at(name), x, builder.getStringAttr("tanh"));
  return ScaleOp::create(builder, at(name), x, number(cap));
}

SmallVector<Value> GraphParts::scope(StringRef name, StringRef role,
                                     function_ref<SmallVector<Value>()> body) {
  // The result types are known only after the body is built, so the body is built in a detached block first.
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

} // namespace sluice
