#include "tests/passes/RandomGraph.h"

#include "dialects/sluice/Dims.h"
#include "dialects/sluice/Sluice.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

#include <random>

using namespace mlir;

namespace sluice::test {
namespace {

// ----- recipes
// -------------------------------------------------------------------------------------------------

class RecipeMaker {
public:
  explicit RecipeMaker(uint64_t seed) : engine(seed) {}

  Recipe make() {
    Recipe recipe;
    recipe.batch = between(1, 3), recipe.seq = between(1, 5);
    recipe.width = between(1, 7), recipe.vocabulary = between(2, 9);
    recipe.tied = chance(3);
    recipe.steps = steps(between(2, 8), /*depth=*/0);
    return recipe;
  }

private:
  int64_t between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(engine() % (high - low + 1));
  }
  bool chance(int64_t oneIn) { return between(1, oneIn) == 1; }

  std::vector<Step> steps(int64_t count, int depth) {
    std::vector<Step> made;
    for (int64_t i = 0; i < count; ++i) {
      Step step;
      // Experts are what this compiler is about: one step in four.
      int64_t last = depth < 2 ? Step::Scope : Step::Observe;
      step.kind = chance(4) ? Step::Moe : static_cast<Step::Kind>(between(0, last));
      // Most steps go on from the newest value; others reach back, which shares values.
      step.first = chance(3) ? between(0, 6) : 0;
      step.second = between(0, 6);
      step.size = between(1, 5);
      step.variant = between(0, 1 << 12);
      if (step.kind == Step::Repeat || step.kind == Step::Scope)
        step.body = steps(between(1, 3), depth + 1);
      made.push_back(std::move(step));
    }
    return made;
  }

  std::mt19937_64 engine;
};

// ----- modules
// -------------------------------------------------------------------------------------------------

class ModuleMaker {
public:
  ModuleMaker(MLIRContext &context, const Recipe &recipe)
      : recipe(recipe), builder(&context), loc(builder.getUnknownLoc()), f32(builder.getF32Type()) {}

  OwningOpRef<ModuleOp> make() {
    OwningOpRef<ModuleOp> module = ModuleOp::create(loc, StringRef("random"));
    builder.setInsertionPointToEnd(module->getBody());
    Dim batch(std::string("batch")), seq(std::string("seq"));
    Type ids = tensorOf({batch, seq}, builder.getI32Type());
    stream = tensorOf({batch, seq, Dim(recipe.width)}, f32);
    auto graph = GraphOp::create(builder, loc, builder.getStringAttr("model"),
                                 builder.getStrArrayAttr({"tokens", "targets"}));
    Block &block = graph.getBody().emplaceBlock();
    Value tokens = block.addArgument(ids, loc);
    targets = block.addArgument(ids, loc);
    builder.setInsertionPointToStart(&block);

    Value table = parameter({recipe.vocabulary, recipe.width}, "embedding");
    values.push_back(EmbeddingOp::create(builder, loc, tokens, table));
    run(recipe.steps);
    Value weight = recipe.tied ? table : parameter({recipe.vocabulary, recipe.width}, "head");
    Value logits = linear(values.back(), weight);
    Value loss = CrossEntropyOp::create(builder, loc, logits, targets, builder.getI64IntegerAttr(-100));
    ReturnOp::create(builder, loc, ValueRange{logits, loss}, builder.getStrArrayAttr({"logits", "loss_sum"}));
    return module;
  }

private:
  // The newest value is pick 0.
  Value pick(int64_t index) { return values[values.size() - 1 - static_cast<size_t>(index) % values.size()]; }

  Value parameter(ArrayRef<int64_t> shape, StringRef role) {
    std::string name = "p" + std::to_string(parameters++);
    Attribute init = shape.size() == 1 && role == "norm"
                         ? Attribute(FillAttr::get(builder.getContext(), builder.getF64FloatAttr(1.0)))
                         : NormalAttr::get(builder.getContext(), builder.getF64FloatAttr(0.5));
    return ParamOp::create(builder, loc, RankedTensorType::get(shape, f32), builder.getStringAttr(name), init,
                           builder.getStringAttr(role), StringAttr(), BoolAttr());
  }
  Value linear(Value x, Value weight, Value bias = Value()) {
    return LinearOp::create(builder, loc, x, weight, bias, Value());
  }
  Value linear(Value x, int64_t in, int64_t out, bool biased = false) {
    Value weight = parameter({out, in}, "mlp");
    return linear(x, weight, biased ? parameter({out}, "bias") : Value());
  }
  /// A large epsilon keeps the graph well conditioned: where it decides, as for width 1, the derivative is a
  /// difference that would otherwise lose most of its digits, and phases that reorder arithmetic could not
  /// agree to 1e-12.
  Value norm(Value x) {
    return RmsNormOp::create(builder, loc, x, parameter({recipe.width}, "norm"), builder.getF64FloatAttr(0.1))
        .getY();
  }

  using Scalars = ArrayRef<BlockArgument>;
  Value map(ArrayRef<Value> inputs, llvm::function_ref<Value(Scalars)> body) {
    OperationState state(loc, MapOp::getOperationName());
    state.addOperands(inputs);
    state.addTypes(inputs.front().getType());
    auto block = std::make_unique<Block>();
    for (size_t i = 0; i < inputs.size(); ++i)
      block->addArgument(f32, loc);
    {
      OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPointToStart(block.get());
      Value result = body(block->getArguments());
      YieldOp::create(builder, loc, result);
    }
    state.addRegion()->push_back(block.release());
    return builder.create(state)->getResult(0);
  }
  Value scalar(double value) {
    return arith::ConstantOp::create(builder, loc, builder.getFloatAttr(f32, value));
  }

  void run(const std::vector<Step> &steps) {
    for (const Step &step : steps)
      if (Value made = apply(step))
        values.push_back(made);
  }

  Value apply(const Step &step) {
    Value x = pick(step.first), other = pick(step.second);
    const int64_t width = recipe.width;
    switch (step.kind) {
    case Step::Linear:
      return linear(x, width, width, step.variant % 2);
    case Step::TiedLinear:
      if (squares.empty())
        squares.push_back(parameter({width, width}, "mlp"));
      return linear(x, squares[step.variant % squares.size()]);
    case Step::RmsNorm:
      return norm(x);
    case Step::Add:
      return AddOp::create(builder, loc, x, other);
    case Step::Multiply:
      return MultiplyOp::create(builder, loc, norm(x), other);
    case Step::Scale:
      return ScaleOp::create(builder, loc, x, builder.getF64FloatAttr(0.25 + 0.5 * (step.variant % 3)));
    case Step::Activation: {
      // Smooth ones only: central differences need it.
      constexpr const char *names[] = {"silu", "gelu", "gelu_tanh", "tanh", "sigmoid"};
      return ActivationOp::create(builder, loc, x, builder.getStringAttr(names[step.variant % 5]));
    }
    case Step::Softmax:
      return SoftmaxOp::create(builder, loc, x);
    case Step::Mlp: {
      Value gate = linear(x, width, step.size, step.variant % 2), up = linear(x, width, step.size);
      return linear(SwiGluOp::create(builder, loc, gate, up), step.size, width);
    }
    case Step::Attention:
      return attention(x, step);
    case Step::Map:
      return map({x, other}, [&](Scalars s) -> Value {
        if (step.variant % 2)
          return arith::AddFOp::create(builder, loc, math::TanhOp::create(builder, loc, s[0]),
                                       arith::MulFOp::create(builder, loc, s[1], scalar(0.5)));
        Value e = math::ExpOp::create(
            builder, loc,
            arith::NegFOp::create(builder, loc, arith::MulFOp::create(builder, loc, s[0], s[0])));
        return arith::MulFOp::create(builder, loc, e, s[1]);
      });
    case Step::SumOverSequence: {
      Value sum = ReduceOp::create(builder, loc, x, builder.getDenseI64ArrayAttr({1}));
      return map({other, sum}, [&](Scalars s) -> Value {
        return arith::AddFOp::create(builder, loc, s[0],
                                     arith::MulFOp::create(builder, loc, s[1], scalar(0.1)));
      });
    }
    case Step::Contract:
      return ContractOp::create(builder, loc, x, parameter({width, width}, "mlp"),
                                builder.getStringAttr("bsd,de->bse"));
    case Step::SliceConcat: {
      int64_t cut = step.variant % width;
      if (cut == 0)
        return ConcatOp::create(builder, loc, ValueRange{slice(x, 0, width)}, builder.getI64IntegerAttr(2));
      return ConcatOp::create(builder, loc, ValueRange{slice(x, cut, width - cut), slice(x, 0, cut)},
                              builder.getI64IntegerAttr(2));
    }
    case Step::Transpose: {
      auto swap = builder.getDenseI64ArrayAttr({2, 0, 1}), back = builder.getDenseI64ArrayAttr({1, 2, 0});
      Value turned = TransposeOp::create(builder, loc, x, swap);
      turned = ActivationOp::create(builder, loc, turned, builder.getStringAttr("tanh"));
      return TransposeOp::create(builder, loc, turned, back);
    }
    case Step::Moe:
      return moe(norm(x), step);
    case Step::Observe:
      ObserveOp::create(builder, loc, builder.getStringAttr("probe" + std::to_string(observations++)), x);
      return Value();
    case Step::Repeat:
      return repeat(x, step);
    case Step::Scope:
      return scope(step);
    }
    return Value();
  }

  Value slice(Value x, int64_t from, int64_t size) {
    return SliceOp::create(builder, loc, x, builder.getDenseI64ArrayAttr({0, 0, from}),
                           builder.getDenseI64ArrayAttr({-1, -1, size}));
  }

  Value attention(Value x, const Step &step) {
    const int64_t kvHeads = 1 + step.variant % 2, heads = kvHeads * (1 + step.variant / 2 % 2),
                  headDim = 2 * (1 + step.variant / 4 % 2);
    Value q = linear(x, recipe.width, heads * headDim), k = linear(x, recipe.width, kvHeads * headDim),
          v = linear(x, recipe.width, kvHeads * headDim);
    auto rope = [&](Value value, int64_t count) -> Value {
      return RopeOp::create(builder, loc, value, builder.getI64IntegerAttr(count),
                            builder.getF64FloatAttr(100.0), builder.getBoolAttr(false), IntegerAttr(),
                            IntegerAttr(), builder.getBoolAttr(step.variant / 2 % 2), FloatAttr(),
                            DenseF64ArrayAttr());
    };
    const bool causal = step.variant / 8 % 2;
    Value out =
        AttentionOp::create(builder, loc, rope(q, heads), rope(k, kvHeads), v, Value(),
                            builder.getI64IntegerAttr(heads), builder.getI64IntegerAttr(kvHeads),
                            builder.getBoolAttr(causal), builder.getF64FloatAttr(0.7),
                            builder.getI64IntegerAttr(causal ? step.variant % 3 : 0),
                            builder.getF64FloatAttr(step.variant / 4 % 2 ? 2.0 : 0.0), DenseF64ArrayAttr())
            .getOut();
    return linear(out, heads * headDim, recipe.width);
  }

  Value moe(Value x, const Step &step) {
    const int64_t experts = step.size, topK = 1 + step.variant % experts;
    const bool sigmoid = step.variant / 8 % 2, renormalize = step.variant / 16 % 2;
    Value logits = linear(x, recipe.width, experts);
    auto route =
        RouteOp::create(builder, loc, logits, Value(), builder.getI64IntegerAttr(topK),
                        builder.getStringAttr(sigmoid ? "sigmoid" : "softmax"),
                        builder.getBoolAttr(renormalize), builder.getF64FloatAttr(renormalize ? 1e-9 : 0.0),
                        builder.getF64FloatAttr(1.0 + 0.5 * (step.variant / 32 % 2)),
                        builder.getBoolAttr(true), IntegerAttr(), IntegerAttr(), StringAttr());
    auto ignore = builder.getI64IntegerAttr(-100);
    if (step.variant / 64 % 2)
      AuxiliaryLossOp::create(builder, loc, builder.getStringAttr("balance"),
                              SwitchBalanceOp::create(builder, loc, route.getProbabilities(),
                                                      route.getRouting(), targets,
                                                      builder.getBoolAttr(sigmoid), ignore),
                              builder.getF64FloatAttr(0.1));
    if (step.variant / 128 % 2)
      AuxiliaryLossOp::create(builder, loc, builder.getStringAttr("router_z"),
                              RouterZOp::create(builder, loc, logits, targets, ignore),
                              builder.getF64FloatAttr(0.01));
    if (step.variant / 256 % 2)
      ObserveOp::create(builder, loc, builder.getStringAttr("routing" + std::to_string(observations++)),
                        RoutingStatisticsOp::create(builder, loc, logits, route.getProbabilities(),
                                                    route.getRouting(), targets, ignore));
    Value rows = DispatchOp::create(builder, loc, x, route.getRouting(), Value());
    auto op = ExpertsOp::create(builder, loc, rows.getType(), route.getRouting(), rows);
    {
      OpBuilder::InsertionGuard guard(builder);
      Block &body = op.getBody().emplaceBlock();
      Value row = body.addArgument(rows.getType(), loc);
      builder.setInsertionPointToStart(&body);
      YieldOp::create(builder, loc, expert(row, step));
    }
    return CombineOp::create(builder, loc, op.getResult(0), route.getRouting(), route.getGates());
  }

  /// Forms that fuse and forms that do not.
  Value expert(Value row, const Step &step) {
    const int64_t form = step.variant / 512 % 4, inner = 1 + step.second;
    if (form == 3)
      return linear(
          ActivationOp::create(builder, loc, linear(row, recipe.width, inner), builder.getStringAttr("gelu")),
          inner, recipe.width, true);
    Value gate = linear(row, recipe.width, inner, form == 1),
          up = linear(row, recipe.width, inner, form == 1);
    Value out = linear(SwiGluOp::create(builder, loc, gate, up), inner, recipe.width);
    return form == 2 ? Value(AddOp::create(builder, loc, out, row)) : out;
  }

  /// Runs `steps` in a body of its own; what it makes is not visible outside.
  Value inBody(Block &block, const std::vector<Step> &steps) {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(&block);
    size_t visible = values.size(), visibleSquares = squares.size();
    for (BlockArgument argument : block.getArguments())
      values.push_back(argument);
    run(steps);
    Value result = values.back();
    YieldOp::create(builder, loc, result);
    values.resize(visible), squares.resize(visibleSquares);
    return result;
  }

  Value repeat(Value x, const Step &step) {
    auto op = RepeatOp::create(
        builder, loc, x.getType(), builder.getStringAttr("layers" + std::to_string(names++)),
        builder.getI64IntegerAttr(1 + step.size % 3), x, builder.getI64IntegerAttr(step.variant % 3));
    Block &body = op.getBody().emplaceBlock();
    body.addArgument(x.getType(), loc);
    inBody(body, step.body);
    return op.getResult(0);
  }

  Value scope(const Step &step) {
    auto op = ScopeOp::create(builder, loc, stream, builder.getStringAttr("part" + std::to_string(names++)),
                              step.variant % 2 ? builder.getStringAttr("mlp") : StringAttr());
    inBody(op.getBody().emplaceBlock(), step.body);
    return op.getResult(0);
  }

  const Recipe &recipe;
  OpBuilder builder;
  Location loc;
  Type f32, stream;
  Value targets;
  std::vector<Value> values;  // of the stream, visible here
  std::vector<Value> squares; // weights [width, width] for tying
  int64_t parameters = 0, observations = 0, names = 0;
};

// ----- reduction
// -----------------------------------------------------------------------------------------------

/// All recipes that are one small cut smaller than this list of steps.
void forEachCut(std::vector<Step> &steps, const std::function<bool()> &accepted) {
  for (size_t i = 0; i < steps.size();) {
    std::vector<Step> before = steps;
    steps.erase(steps.begin() + static_cast<long>(i));
    if (accepted())
      continue;
    steps = before;
    if (!steps[i].body.empty()) {
      std::vector<Step> body = steps[i].body;
      steps.erase(steps.begin() + static_cast<long>(i));
      steps.insert(steps.begin() + static_cast<long>(i), body.begin(), body.end());
      if (accepted())
        continue;
      steps = before;
      forEachCut(steps[i].body, accepted);
    }
    for (int64_t Step::*field : {&Step::first, &Step::second, &Step::size, &Step::variant}) {
      int64_t &value = steps[i].*field, old = value, least = field == &Step::size ? 1 : 0;
      if (old <= least)
        continue;
      value = least;
      if (!accepted())
        value = old;
    }
    ++i;
  }
}

int64_t countSteps(const std::vector<Step> &steps) {
  int64_t count = 0;
  for (const Step &step : steps)
    count += 1 + countSteps(step.body);
  return count;
}

} // namespace

Recipe randomRecipe(uint64_t seed) {
  return RecipeMaker(seed).make();
}

OwningOpRef<ModuleOp> buildModule(MLIRContext &context, const Recipe &recipe) {
  return ModuleMaker(context, recipe).make();
}

int64_t stepCount(const Recipe &recipe) {
  return countSteps(recipe.steps);
}

Recipe reduce(Recipe recipe, const std::function<bool(const Recipe &)> &fails) {
  bool smaller = true;
  auto accepted = [&] {
    bool still = fails(recipe);
    smaller |= still;
    return still;
  };
  while (smaller) {
    smaller = false;
    forEachCut(recipe.steps, accepted);
    for (int64_t Recipe::*field : {&Recipe::batch, &Recipe::seq, &Recipe::width, &Recipe::vocabulary}) {
      int64_t least = field == &Recipe::vocabulary ? 2 : 1, old = recipe.*field;
      for (int64_t size = least; size < old; ++size) {
        recipe.*field = size;
        if (accepted())
          break;
        recipe.*field = old;
      }
    }
  }
  return recipe;
}

} // namespace sluice::test
