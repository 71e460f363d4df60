#include "runtime/device/cuda/Kernels.h"

// Cross-entropy, with and without the head's product, and the routers' losses.
namespace sluice::cuda {
namespace {

struct Targets {
  Tensor ids;
  int64_t ignored = 0;

  Targets(Arguments &arguments, size_t input, int64_t tokens)
      : ids(arguments.input(input, ElementType::I32)),
        ignored(arguments.integer("ignore_index", INT32_MIN, INT32_MAX)) {
    arguments.elements(ids, tokens, "targets");
  }
};

Tensor readScalar(Arguments &arguments, const Tensor &tensor, std::string_view name) {
  arguments.elements(tensor, 1, name);
  return tensor;
}

/// One block a row: losses to the workspace, gradients over the logits where `g` is given.
Launch &crossEntropyRows(PreparedKernel &kernel, uint64_t losses, int64_t rows) {
  return kernel.launch("cross_entropy_rows", Blocks::each(rows, 1, "tokens of a chunk")).workspace(losses);
}

void sumLosses(PreparedKernel &kernel, const Tensor &loss, uint64_t losses, int64_t tokens) {
  kernel.launch("sum_values", {}).pointer(loss).workspace(losses).longInteger(tokens);
}

/// The head's product in chunks of tokens, so that only chunk x V logits exist at a time.
struct Head {
  static constexpr int64_t chunkTokens = 256;
  Tensor x, w, loss;
  Tensor g, dx, dw; // empty without gradient
  bool accumulate = false;

  StatusOr<PreparedKernel> prepare(const Targets &targets) const {
    const int64_t tokens = x.rows(), width = x.dim(-1), vocabulary = w.dim(0);
    PreparedKernel kernel;
    const uint64_t losses = kernel.reserve(static_cast<uint64_t>(tokens) * 4);
    const uint64_t logits =
        kernel.reserve(static_cast<uint64_t>(std::min(chunkTokens, tokens) * vocabulary) * 4);
    const Tensor none;
    if (tokens == 0 && g.data && !accumulate)
      kernel.elements("fill_4", dw.elements).pointer(dw).integer(0).longInteger(dw.elements);
    for (int64_t begin = 0; begin < tokens; begin += chunkTokens) {
      const int64_t count = std::min(chunkTokens, tokens - begin);
      const std::byte *chunkX = x.data + begin * width * 4;
      launchProduct(kernel, {count, vocabulary, width, width, 1, width, 1, false},
                    [&](Launch &launch) { launch.workspace(logits).value(chunkX).pointer(w).pointer(none); });
      Launch &rows = crossEntropyRows(kernel, losses + static_cast<uint64_t>(begin) * 4, count)
                         .workspace(logits)
                         .value(static_cast<const std::byte *>(targets.ids.data + begin * 4));
      if (g.data)
        rows.workspace(logits).pointer(g);
      else
        rows.pointer(none).pointer(none);
      rows.integer(vocabulary).integer(targets.ignored).damage();
      if (!g.data)
        continue;
      const std::byte *chunkDx = dx.data + begin * width * 4;
      launchProduct(kernel, {count, width, vocabulary, vocabulary, 1, 1, width, false}, [&](Launch &launch) {
        launch.value(chunkDx).workspace(logits).pointer(w).pointer(none);
      });
      launchProduct(
          kernel, {vocabulary, width, count, 1, vocabulary, 1, width, accumulate || begin > 0},
          [&](Launch &launch) { launch.pointer(dw).workspace(logits).value(chunkX).pointer(none); });
    }
    sumLosses(kernel, loss, losses, tokens);
    return kernel;
  }
};

Head readHead(Arguments &arguments) {
  Head head;
  head.x = arguments.input(0);
  head.w = arguments.input(1);
  head.loss = readScalar(arguments, arguments.output(0), "the loss");
  arguments.require(head.x.dim(-1) > 0 && head.w.dim(0) > 0, "width and vocabulary must not be zero");
  arguments.shape(head.w, {head.w.dim(0), head.x.dim(-1)}, "w");
  arguments.supported(std::max(head.w.dim(0), head.x.dim(-1)) <= INT32_MAX,
                      "width and vocabulary must fit into 31 bits");
  return head;
}

/// Sums over counted tokens that balance and its adjoint share.
struct Balance {
  Tensor probs;
  RoutingParameter routing;
  Targets targets;
  bool normalize;

  explicit Balance(Arguments &arguments)
      : probs(arguments.input(0)),
        routing(routingParameter(arguments, arguments.input(1, ElementType::I32), probs.rows())),
        targets(arguments, 2, probs.rows()), normalize(arguments.flag("normalize")) {
    arguments.require(routing.experts == probs.dim(-1),
                      "the routing buffer must have the probabilities' number of experts");
  }
  uint64_t appendSums(PreparedKernel &kernel) const {
    const uint64_t count = 1 + 2 * static_cast<uint64_t>(routing.experts), sums = kernel.reserve(count * 8);
    kernel.launch("balance_sums", Blocks::each(2 * routing.experts, 1, "2 experts").plus(1, "1"))
        .workspace(sums)
        .pointer(probs)
        .value(routing)
        .pointer(targets.ids)
        .integer(normalize)
        .integer(targets.ignored);
    return sums;
  }
};

} // namespace

StatusOr<PreparedKernel> prepareLinearCrossEntropy(PrepareContext &context) {
  Arguments arguments(context);
  arguments.inputs(3);
  arguments.outputs(1);
  const Head head = readHead(arguments);
  const Targets targets(arguments, 2, head.x.rows());
  SLUICE_RETURN_IF_ERROR(arguments.status());
  return head.prepare(targets);
}

StatusOr<PreparedKernel> prepareLinearCrossEntropyGradient(PrepareContext &context) {
  Arguments arguments(context);
  arguments.inputs(4);
  arguments.outputs(3);
  Head head = readHead(arguments);
  const Targets targets(arguments, 2, head.x.rows());
  head.g = readScalar(arguments, arguments.input(3), "g");
  head.dx = arguments.output(1);
  head.dw = arguments.output(2);
  head.accumulate = arguments.flag("accumulate");
  arguments.elements(head.dx, head.x.elements, "dx");
  arguments.elements(head.dw, head.w.elements, "dw");
  SLUICE_RETURN_IF_ERROR(arguments.status());
  return head.prepare(targets);
}

StatusOr<PreparedKernel> prepareCrossEntropy(PrepareContext &context) {
  Arguments arguments(context);
  arguments.inputs(2);
  arguments.outputs(1);
  const Tensor logits = arguments.input(0), loss = readScalar(arguments, arguments.output(0), "the loss");
  const Targets targets(arguments, 1, logits.rows());
  arguments.require(logits.dim(-1) > 0, "the vocabulary must not be empty");
  SLUICE_RETURN_IF_ERROR(arguments.status());
  PreparedKernel kernel;
  const uint64_t losses = kernel.reserve(static_cast<uint64_t>(logits.rows()) * 4);
  crossEntropyRows(kernel, losses, logits.rows())
      .pointer(logits)
      .pointer(targets.ids)
      .pointer({})
      .pointer({})
      .integer(logits.dim(-1))
      .integer(targets.ignored)
      .damage();
  sumLosses(kernel, loss, losses, logits.rows());
  return kernel;
}

StatusOr<PreparedKernel> prepareCrossEntropyGradient(PrepareContext &context) {
  Arguments arguments(context);
  arguments.inputs(3);
  arguments.outputs(1);
  const Tensor logits = arguments.input(0), g = readScalar(arguments, arguments.input(2), "g"),
               dlogits = arguments.output(0);
  const Targets targets(arguments, 1, logits.rows());
  arguments.elements(dlogits, logits.elements, "dlogits");
  arguments.require(logits.dim(-1) > 0, "the vocabulary must not be empty");
  SLUICE_RETURN_IF_ERROR(arguments.status());
  PreparedKernel kernel;
  const uint64_t losses = kernel.reserve(static_cast<uint64_t>(logits.rows()) * 4);
  crossEntropyRows(kernel, losses, logits.rows())
      .pointer(logits)
      .pointer(targets.ids)
      .pointer(dlogits)
      .pointer(g)
      .integer(logits.dim(-1))
      .integer(targets.ignored)
      .damage();
  return kernel;
}

StatusOr<PreparedKernel> prepareCountTargets(PrepareContext &context) {
  Arguments arguments(context);
  arguments.inputs(1);
  arguments.outputs(1);
  const Tensor ids = arguments.input(0, ElementType::I32),
               count = readScalar(arguments, arguments.output(0), "the count");
  const int64_t ignored = arguments.integer("ignore_index", INT32_MIN, INT32_MAX);
  SLUICE_RETURN_IF_ERROR(arguments.status());
  PreparedKernel kernel;
  kernel.launch("count_targets", {}).pointer(count).pointer(ids).integer(ids.elements).integer(ignored);
  return kernel;
}

StatusOr<PreparedKernel> prepareSwitchBalance(PrepareContext &context) {
  Arguments arguments(context);
  arguments.inputs(3);
  arguments.outputs(1);
  const Balance balance(arguments);
  const Tensor loss = readScalar(arguments, arguments.output(0), "the loss");
  SLUICE_RETURN_IF_ERROR(arguments.status());
  PreparedKernel kernel;
  const uint64_t sums = balance.appendSums(kernel);
  kernel.launch("switch_balance", {}, 32).pointer(loss).workspace(sums).value(balance.routing);
  return kernel;
}

StatusOr<PreparedKernel> prepareSwitchBalanceGradient(PrepareContext &context) {
  Arguments arguments(context);
  arguments.inputs(4);
  arguments.outputs(1);
  const Balance balance(arguments);
  const Tensor g = readScalar(arguments, arguments.input(3), "g"), dprobs = arguments.output(0);
  arguments.elements(dprobs, balance.probs.elements, "dprobs");
  SLUICE_RETURN_IF_ERROR(arguments.status());
  PreparedKernel kernel;
  const uint64_t sums = balance.appendSums(kernel);
  kernel.launch("switch_balance_gradient", Blocks::each(balance.routing.tokens, 128, "tokens"), 128)
      .pointer(dprobs)
      .pointer(balance.probs)
      .workspace(sums)
      .value(balance.routing)
      .pointer(balance.targets.ids)
      .pointer(g)
      .integer(balance.normalize)
      .integer(balance.targets.ignored);
  return kernel;
}

StatusOr<PreparedKernel> prepareRouterZ(PrepareContext &context) {
  Arguments arguments(context);
  arguments.inputs(2);
  arguments.outputs(1);
  const Tensor logits = arguments.input(0), loss = readScalar(arguments, arguments.output(0), "the loss");
  const Targets targets(arguments, 1, logits.rows());
  SLUICE_RETURN_IF_ERROR(arguments.status());
  PreparedKernel kernel;
  const uint64_t sums = kernel.reserve(16);
  kernel.launch("router_z", {})
      .pointer(loss)
      .workspace(sums)
      .pointer(logits)
      .pointer(targets.ids)
      .integer(logits.rows())
      .integer(logits.dim(-1))
      .integer(targets.ignored);
  return kernel;
}

StatusOr<PreparedKernel> prepareRouterZGradient(PrepareContext &context) {
  Arguments arguments(context);
  arguments.inputs(3);
  arguments.outputs(1);
  const Tensor logits = arguments.input(0), g = readScalar(arguments, arguments.input(2), "g"),
               dlogits = arguments.output(0);
  const Targets targets(arguments, 1, logits.rows());
  arguments.elements(dlogits, logits.elements, "dlogits");
  SLUICE_RETURN_IF_ERROR(arguments.status());
  const int64_t tokens = logits.rows(), experts = logits.dim(-1);
  PreparedKernel kernel;
  const uint64_t sums = kernel.reserve(16);
  kernel.launch("router_z", {})
      .pointer({})
      .workspace(sums)
      .pointer(logits)
      .pointer(targets.ids)
      .integer(tokens)
      .integer(experts)
      .integer(targets.ignored);
  kernel.launch("router_z_gradient", Blocks::each(tokens, 128, "tokens"), 128)
      .pointer(dlogits)
      .workspace(sums)
      .pointer(logits)
      .pointer(targets.ids)
      .pointer(g)
      .integer(tokens)
      .integer(experts)
      .integer(targets.ignored);
  return kernel;
}

StatusOr<PreparedKernel> prepareRoutingStatistics(PrepareContext &context) {
  Arguments arguments(context);
  arguments.inputs(4);
  arguments.outputs(1);
  const Tensor logits = arguments.input(0), probs = arguments.input(1), statistics = arguments.output(0);
  const RoutingParameter routing =
      routingParameter(arguments, arguments.input(2, ElementType::I32), logits.rows());
  const Targets targets(arguments, 3, logits.rows());
  arguments.require(routing.experts == logits.dim(-1),
                    "the routing buffer must have the logits' number of experts");
  arguments.elements(probs, logits.elements, "probs");
  arguments.elements(statistics, routing.experts + 4, "the statistics");
  SLUICE_RETURN_IF_ERROR(arguments.status());
  PreparedKernel kernel;
  kernel.launch("routing_statistics", Blocks::each(routing.experts, 1, "experts").plus(4, "4"))
      .pointer(statistics)
      .pointer(logits)
      .pointer(probs)
      .value(routing)
      .pointer(targets.ids)
      .integer(targets.ignored);
  return kernel;
}

} // namespace sluice::cuda
