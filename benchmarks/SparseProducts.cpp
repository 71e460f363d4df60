// The three products of a masked linear layer that skip zeros, against oneDNN's dense ones of the same shape;
// changes of layout included, both on all cores. Prints one JSON object.
//   sluice-bench-sparse [--tokens T]
#include "benchmarks/DenseProduct.h"
#include "runtime/device/MaskPattern.h"
#include "runtime/device/cpu/SparseProduct.h"
#include "runtime/support/Philox.h"
#include "runtime/support/ThreadPool.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <random>
#include <thread>

namespace {

using namespace sluice::cpu;

double bestSeconds(const std::function<void()> &body) {
  double best = 1e30;
  for (int run = 0; run < 5; ++run) {
    auto start = std::chrono::steady_clock::now();
    body();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

struct Pattern {
  const char *name;
  double density;
  sluice::MaskPattern of(int64_t outputs, int64_t inputs) const {
    const int64_t unit = std::string_view(name) == "block:16x16" ? 256 : 1, units = outputs * inputs / unit;
    const auto kept = static_cast<int64_t>(density * static_cast<double>(units)) * unit;
    return sluice::MaskPattern::read(name, outputs, inputs, kept).value();
  }
};

/// A masked weight [outputs, inputs] on `tokens` tokens.
class MaskedLayer {
public:
  MaskedLayer(int64_t outputs, int64_t inputs, int64_t tokens, const sluice::MaskPattern &pattern,
              sluice::ThreadPool &pool)
      : outputs(outputs), inputs(inputs), tokens(tokens), pool(pool),
        forwardWeight(outputs, inputs, pattern.kept, SparseMatrix::heightFor(pattern.blockRows)),
        backwardWeight(inputs, outputs, pattern.kept, SparseMatrix::heightFor(pattern.blockColumns)) {
    std::vector<uint64_t> mask(static_cast<size_t>(sluice::maskBytes(outputs * inputs)) / 8);
    std::vector<uint64_t> candidates(static_cast<size_t>(pattern.size()));
    drawMask(pattern, 1, /*seed=*/1, sluice::streamKey("benchmark"), reinterpret_cast<uint8_t *>(mask.data()),
             candidates.data());
    std::mt19937 random(1);
    std::uniform_real_distribution<float> uniform(0, 1);
    std::vector<float> weight(static_cast<size_t>(outputs * inputs));
    for (size_t i = 0; i < weight.size(); ++i)
      if (mask[i / 64] >> (i % 64) & 1)
        weight[i] = uniform(random);
    forwardWeight.build(mask.data(), 0, false), backwardWeight.build(mask.data(), 0, true);
    forwardWeight.refresh(weight.data()), backwardWeight.refresh(weight.data());
    x.assign(static_cast<size_t>(tokens * inputs), 0.5f),
        y.assign(static_cast<size_t>(tokens * outputs), 0.25f);
    sums.resize(static_cast<size_t>(forwardWeight.kept() * segments));
    const uint64_t bytes =
        std::max({sparseProductScratchBytes(forwardWeight), sparseProductScratchBytes(backwardWeight),
                  sparseGradientScratchBytes(forwardWeight)});
    for (int worker = 0; worker < pool.threads(); ++worker)
      scratch.emplace_back(std::aligned_alloc(64, (bytes + 63) / 64 * 64), std::free);
  }

  double forward() { return products(forwardWeight, x, y); }
  double inputGradient() { return products(backwardWeight, y, x); }
  /// Segments of tokens side by side, then their sums in order.
  double weightGradient() {
    const int64_t kept = forwardWeight.kept(), share = (tokens + segments - 1) / segments;
    return bestSeconds([&] {
      pool.forEach(segments, [&](int64_t segment, int worker) {
        const int64_t first = std::min(segment * share, tokens), count = std::min(share, tokens - first);
        sparseWeightGradient(forwardWeight, count, x.data() + first * inputs, inputs,
                             y.data() + first * outputs, outputs, sums.data() + segment * kept,
                             scratch[static_cast<size_t>(worker)].get());
      });
      for (int64_t segment = 1; segment < segments; ++segment)
        for (int64_t i = 0; i < kept; ++i)
          sums[static_cast<size_t>(i)] += sums[static_cast<size_t>(segment * kept + i)];
    });
  }
  double refresh(const std::vector<float> &weight) {
    return bestSeconds([&] { forwardWeight.refresh(weight.data()), backwardWeight.refresh(weight.data()); });
  }

private:
  static constexpr int64_t segments = 8;
  double products(const SparseMatrix &weight, const std::vector<float> &from, std::vector<float> &to) {
    const int64_t panel = sparsePanelTokens();
    return bestSeconds([&] {
      pool.forEach((tokens + panel - 1) / panel, [&](int64_t tile, int worker) {
        const int64_t first = tile * panel;
        sparsePanelProduct(weight, std::min(panel, tokens - first), from.data() + first * weight.inputs(),
                           weight.inputs(), to.data() + first * weight.outputs(), weight.outputs(),
                           /*accumulate=*/false, scratch[static_cast<size_t>(worker)].get());
      });
    });
  }

  int64_t outputs, inputs, tokens;
  sluice::ThreadPool &pool;
  SparseMatrix forwardWeight, backwardWeight;
  std::vector<float> x, y, sums;
  std::vector<std::unique_ptr<void, void (*)(void *)>> scratch;
};

} // namespace

int main(int argc, char **argv) {
  CLI::App app("Times masked products that skip zeros against oneDNN's dense ones", "sluice-bench-sparse");
  int64_t tokens = 2048;
  app.add_option("--tokens", tokens, "Tokens of a step");
  CLI11_PARSE(app, argc, argv);
  sluice::ThreadPool pool(static_cast<int>(std::max(1u, std::thread::hardware_concurrency())));
  nlohmann::json rows = nlohmann::json::array();
  for (auto [outputs, inputs] : {std::pair<int64_t, int64_t>{4096, 256}, {256, 4096}, {256, 256}}) {
    const double dense[] = {sluice::benchmarks::denseProductSeconds(tokens, outputs, inputs, false, true),
                            sluice::benchmarks::denseProductSeconds(tokens, inputs, outputs, false, false),
                            sluice::benchmarks::denseProductSeconds(outputs, inputs, tokens, true, false)};
    for (const Pattern &pattern : {Pattern{"unstructured", 0.25},
                                   {"unstructured", 0.1},
                                   {"unstructured", 0.05},
                                   {"block:16x16", 0.5},
                                   {"block:16x16", 0.25},
                                   {"block:16x16", 0.1},
                                   {"block:16x16", 0.05},
                                   {"2:4", 0.5},
                                   {"1:4", 0.25},
                                   {"1:8", 0.125}}) {
      MaskedLayer layer(outputs, inputs, tokens, pattern.of(outputs, inputs), pool);
      const double sparse[] = {layer.forward(), layer.inputGradient(), layer.weightGradient()};
      // A step refreshes the values once.
      const double refresh = layer.refresh(std::vector<float>(static_cast<size_t>(outputs * inputs), 0.5f));
      rows.push_back(
          {{"outputs", outputs},
           {"inputs", inputs},
           {"pattern", pattern.name},
           {"zeros", 1 - pattern.density},
           {"dense_ms", 1e3 * (dense[0] + dense[1] + dense[2])},
           {"sparse_ms", 1e3 * (sparse[0] + sparse[1] + sparse[2] + refresh)},
           {"refresh_ms", 1e3 * refresh},
           {"forward_ratio", dense[0] / sparse[0]},
           {"input_gradient_ratio", dense[1] / sparse[1]},
           {"weight_gradient_ratio", dense[2] / sparse[2]},
           {"ratio", (dense[0] + dense[1] + dense[2]) / (sparse[0] + sparse[1] + sparse[2] + refresh)}});
    }
  }
  std::cout << nlohmann::json{{"tokens", tokens}, {"rows", rows}}.dump() << "\n";
}
