// The floor: the time of one training step's dense products alone, each as one oneDNN call with the library's
// own threads. Nothing that uses oneDNN for its products can be faster. Prints one JSON object.
//   sluice-bench-floor --tokens T --vocabulary V --width d --layers L --kv-width k --ffn f [--experts E
//   --top-k K]
#include "benchmarks/DenseProduct.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <iostream>

int main(int argc, char **argv) {
  CLI::App app("Times the dense products of one training step with oneDNN", "sluice-bench-floor");
  int64_t tokens = 2048, vocabulary = 30008, width = 256, layers = 4, kvWidth = 128, ffn = 2048, experts = 0,
          topK = 0;
  app.add_option("--tokens", tokens, "Tokens of a step");
  app.add_option("--vocabulary", vocabulary, "Vocabulary");
  app.add_option("--width", width, "Model width");
  app.add_option("--layers", layers, "Layers");
  app.add_option("--kv-width", kvWidth, "Width of keys and values");
  app.add_option("--ffn", ffn, "Hidden width of the MLP or of an expert");
  app.add_option("--experts", experts, "Experts; 0: dense");
  app.add_option("--top-k", topK, "Experts a token chooses");
  CLI11_PARSE(app, argc, argv);
  const auto product = sluice::benchmarks::denseProductSeconds;
  double seconds = 0, flops = 0;
  // A linear layer [rows, in] -> [rows, out], `count` times: forward, gradient of the input, gradient of the
  // weight.
  auto linear = [&](int64_t rows, int64_t out, int64_t in, int64_t count) {
    seconds += static_cast<double>(count) *
               (product(rows, out, in, false, true) + product(rows, in, out, false, false) +
                product(out, in, rows, true, false));
    flops += 6.0 * static_cast<double>(count * rows * out * in);
  };
  linear(tokens, width, width, 2 * layers);
  linear(tokens, kvWidth, width, 2 * layers);
  linear(tokens, vocabulary, width, 1);
  int64_t rows = experts ? tokens * topK / experts : tokens, copies = experts ? experts : 1;
  linear(rows, ffn, width, 2 * layers * copies);
  linear(rows, width, ffn, layers * copies);
  nlohmann::json result = {{"floor_tokens_per_s", static_cast<double>(tokens) / seconds},
                           {"floor_ms", seconds * 1e3},
                           {"gflops", flops / seconds / 1e9}};
  std::cout << result.dump() << "\n";
}
