// Training through the programs: the same bits on any thread count and across stops, the runtime alone
// against the compiler's command, interruption, divergence, and what becomes of a run's weights afterwards.
#include "tests/frontends/CommandLine.h"

#include "runtime/checkpoint/Safetensors.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstring>
#include <map>
#include <set>
#include <sstream>
#include <thread>

namespace sluice {
namespace {

using CommandLineTrainTest = CommandLine;

constexpr int steps = 8; // of 4 x 32 tokens: the spec's 1024 tokens
constexpr int64_t stepTokens = 128;
const std::string quiet = " --data data --sample 0 --quiet --threads ";

std::vector<nlohmann::json> records(const std::string &text, const std::string &kind) {
  std::vector<nlohmann::json> found;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    // The last line may be half written while the run goes on.
    if (auto record = nlohmann::json::parse(line, nullptr, false);
        record.is_object() && record.value("kind", "") == kind)
      found.push_back(record);
  return found;
}

/// A tensor of float32 or float64 as doubles.
std::vector<double> valuesOf(const TensorView &tensor) {
  std::vector<double> values(static_cast<size_t>(tensor.elements()));
  if (tensor.type == TensorType::F64) {
    std::memcpy(values.data(), tensor.data, tensor.bytes);
  } else {
    std::vector<float> narrow(values.size());
    std::memcpy(narrow.data(), tensor.data, tensor.bytes);
    values.assign(narrow.begin(), narrow.end());
  }
  return values;
}

TEST_F(CommandLineTrainTest, TrainsPlainlyAndSaysWhereThingsAre) {
  Outcome trained = good("sluice train moe.yaml --data data --out plain --prompt the");
  for (const char *part : {"step 8/8", "loss", "validation", "bits/byte",
                           "before training: ", "after training: ", "run folder       plain"})
    EXPECT_NE(trained.out.find(part), std::string::npos) << part << "\n" << trained.out;
  // Where output is no terminal, lines are plain.
  EXPECT_EQ(trained.out.find_first_of("\r\033"), std::string::npos);
  auto train = records(read("plain/metrics.jsonl"), "train");
  ASSERT_EQ(train.size(), size_t{steps});
  // A collapse is named where it lasts three intervals after the warmup (here the first step), and only
  // there.
  std::map<std::string, int> collapsed;
  std::set<std::string> lasting;
  for (const nlohmann::json &record : train)
    for (const auto &[layer, routing] : record["routing"].items()) {
      collapsed[layer] = record["step"] > 1 && routing["collapsed"] ? collapsed[layer] + 1 : 0;
      if (collapsed[layer] >= 3)
        lasting.insert(layer);
    }
  for (const auto &[layer, intervals] : collapsed)
    EXPECT_EQ(trained.out.find(layer + ": the router collapsed") != std::string::npos,
              lasting.contains(layer))
        << trained.out;
  EXPECT_LT(train.back()["loss"], train.front()["loss"]);
  for (const char *key : {"loss", "auxiliary", "learning_rate", "gradient_norm", "tokens_per_second",
                          "seen_tokens", "unique_tokens", "epoch", "routing"})
    EXPECT_TRUE(train.back().contains(key)) << key;
  std::string hash = checkpointHash("plain", steps);

  // The runtime alone, from the executable, gives the same checkpoint; and a dry run trains nothing.
  good("sluice-run train moe.slx --out alone" + quiet + "1");
  EXPECT_EQ(checkpointHash("alone", steps), hash);
  for (const std::string &line : {"sluice train moe.yaml --data data --out dry --dry-run",
                                  "sluice-run train moe.slx --data data --out dry --dry-run"}) {
    std::string text = good(line).out;
    for (const char *part :
         {"Schedule", "cosine", "Memory", "activations", "Ledger", "active parameters", "Data"})
      EXPECT_NE(text.find(part), std::string::npos) << part;
    EXPECT_FALSE(exists("dry"));
  }

  // The finished run: the command again changes nothing, another configuration is refused with the
  // difference.
  good("sluice train moe.yaml --data data --out plain --quiet");
  EXPECT_EQ(checkpointHash("plain", steps), hash);
  bad("sluice train moe.yaml --data data --out plain --set train.lr=1e-3", 2, {"plain", "lr"});
  bad("sluice-run train moe.slx --data data --out plain --seed 5", 2, {"seed", "5"});
  bad("sluice-run train moe.slx --data data --out plain --set model.layers=3", 2, {"model.layers"});
  bad("sluice-run train moe.slx --data data --out r --device gpu", 2,
      {"--device: expected cpu, cuda, cuda:N or cuda-sim, found 'gpu'"});
  bad("sluice-run train moe.slx --data data --out r --tokens many", 2, {"--tokens", "many"});
  bad("sluice-run train moe.slx --data data --out data", 2, {"--out", "data"});

  // A model that does not take its vocabulary from the data must have the data's.
  std::string other = read("moe.yaml");
  other.replace(other.find("  vocabulary: 400\n  vocabulary_from: data\n"), 42, "  vocabulary: 500\n");
  write("other.yaml", other);
  bad("sluice train other.yaml --data data --out r", 2, {"vocabulary", "400", "500"});
  good("sluice train moe.yaml --out taken --set model.vocabulary=500 --stop-after 1" + quiet + "2");
}

TEST_F(CommandLineTrainTest, SameBitsOnAnyThreadsAndAcrossEveryStop) {
  good("sluice-run train moe.slx --out once" + quiet + "1");
  good("sluice-run train moe.slx --out twice" + quiet + "1");
  good("sluice-run train moe.slx --out threads" + quiet + "2");
  std::string hash = checkpointHash("once", steps);
  EXPECT_EQ(hash.size(), 64u);
  EXPECT_EQ(checkpointHash("twice", steps), hash);
  EXPECT_EQ(checkpointHash("threads", steps), hash);
  good("sluice-run train moe.slx --out seed --seed 2" + quiet + "2");
  EXPECT_NE(checkpointHash("seed", steps), hash);
  for (int stop = 1; stop < steps; ++stop) {
    std::string folder = "stop" + std::to_string(stop);
    std::string line = "sluice-run train moe.slx --out " + folder + quiet;
    good(line + "2 --stop-after " + std::to_string(stop * stepTokens));
    EXPECT_FALSE(exists(folder + "/checkpoints/step-00000008"));
    good(line + "1");
    EXPECT_EQ(checkpointHash(folder, steps), hash) << "stopped after step " << stop;
  }
}

TEST_F(CommandLineTrainTest, SameBitsWithSeveralMicroBatches) {
  good("sluice compile moe.yaml --set train.batch_tokens=384 -o micro.slx");
  good("sluice-run train micro.slx --out micro1" + quiet + "1");
  good("sluice-run train micro.slx --out micro2" + quiet + "2");
  // ceil(1024 / 384) = 3 steps
  std::string hash = checkpointHash("micro1", 3);
  EXPECT_EQ(checkpointHash("micro2", 3), hash);
  for (int stop = 1; stop < 3; ++stop) {
    std::string folder = "microstop" + std::to_string(stop);
    std::string line = "sluice train moe.yaml --set train.batch_tokens=384 --out " + folder + quiet;
    good(line + "1 --stop-after " + std::to_string(stop * 384));
    good(line + "2");
    EXPECT_EQ(checkpointHash(folder, 3), hash) << "stopped after step " << stop;
  }
}

/// The tiny MoE with masks on attention and experts; `rest` goes below `sparsity:`.
std::string maskedSpec(const std::string &base, const std::string &rest) {
  return base + "sparsity:\n  targets: [attention, experts]\n  density: 0.25\n" + rest;
}

TEST_F(CommandLineTrainTest, MaskedRunsKeepTheirBitsAcrossUpdatesAndStops) {
  const std::string moving = "  update:\n    every: 3 steps\n  regrown:\n    step: 5\n    ramp: 20\n";
  for (const char *method : {"static", "set", "rigl", "gradual"}) {
    SCOPED_TRACE(method);
    const std::string name = std::string("masked-") + method, kind = method;
    write(name + ".yaml",
          // Pruning goes from kernels that multiply zeros to those that skip them on its way.
          maskedSpec(read("moe.yaml"),
                     "  break_even: 60\n  method: " + kind + "\n" + (kind == "static" ? "" : moving)));
    good("sluice compile " + name + ".yaml -o " + name + ".slx");
    const std::string line = "sluice-run train " + name + ".slx --out ";
    good(line + name + "1" + quiet + "1");
    good(line + name + "2" + quiet + "2");
    const std::string hash = checkpointHash(name + "1", steps);
    EXPECT_EQ(checkpointHash(name + "2", steps), hash);
    for (int stop : {2, 3, 4, 6}) { // before, right after and between updates
      const std::string folder = name + "stop" + std::to_string(stop);
      good(line + folder + quiet + "2 --stop-after " + std::to_string(stop * stepTokens));
      good(line + folder + quiet + "1");
      EXPECT_EQ(checkpointHash(folder, steps), hash) << "stopped after step " << stop;
    }
    // What a mask drops is zero: no more weights and moments are other than zero than masks keep.
    const std::string last = path(name + "1/checkpoints/step-00000008/");
    StatusOr<SafetensorsFile> model = SafetensorsFile::open(last + "model.safetensors"),
                              optimizer = SafetensorsFile::open(last + "optimizer.safetensors");
    ASSERT_TRUE(model.ok()) << model.status();
    ASSERT_TRUE(optimizer.ok()) << optimizer.status();
    int64_t kept = 0, masks = 0, weights = 0, moments = 0;
    auto isMasked = [](const std::string &tensor) {
      return tensor.find("self_attn") != std::string::npos || tensor.find("experts.") != std::string::npos;
    };
    auto nonzeros = [](const TensorView &view) {
      std::vector<double> values = valuesOf(view);
      return std::count_if(values.begin(), values.end(), [](double value) { return value != 0; });
    };
    for (const TensorView &view : optimizer->tensors()) {
      if (view.type == TensorType::U8) {
        ++masks;
        for (int64_t byte = 0; byte < view.elements(); ++byte)
          kept += std::popcount(static_cast<const uint8_t *>(view.data)[byte]);
      } else if (isMasked(view.name) && view.name.find(".age") == std::string::npos) {
        moments += nonzeros(view);
      }
    }
    for (const TensorView &view : model->tensors())
      if (isMasked(view.name))
        weights += nonzeros(view);
    EXPECT_LE(weights, kept);
    EXPECT_GT(weights, kept / 2);
    EXPECT_LE(moments, 2 * kept);
    EXPECT_GT(masks, 0);
  }
}

TEST_F(CommandLineTrainTest, InterruptedRunsContinue) {
  const std::string line = "sluice-run train moe.slx --tokens 50M --out ";
  Process process(folder, {"sluice-run", "train", "moe.slx", "--tokens", "50M", "--out", "stopped", "--data",
                           "data", "--sample", "0", "--threads", "1"});
  // Steps are going on once some are recorded.
  for (int tries = 0; tries < 3000; ++tries) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    if (exists("stopped/metrics.jsonl") && records(read("stopped/metrics.jsonl"), "train").size() >= 3)
      break;
  }
  process.signal(SIGINT);
  Outcome stopped = process.wait();
  EXPECT_EQ(stopped.code, 5) << stopped.err;
  EXPECT_NE(stopped.err.find("SIGINT"), std::string::npos) << stopped.err;
  EXPECT_NE(stopped.err.find("the same command continues"), std::string::npos) << stopped.err;
  int step = records(read("stopped/metrics.jsonl"), "train").back()["step"];
  EXPECT_EQ(checkpointHash("stopped", step).size(), 64u) << "the step that was finished is saved";
  std::string end = " --stop-after " + std::to_string((step + 2) * stepTokens);
  good(line + "stopped" + quiet + "1" + end);
  good(line + "straight" + quiet + "2" + end);
  EXPECT_EQ(checkpointHash("stopped", step + 2), checkpointHash("straight", step + 2));
}

TEST_F(CommandLineTrainTest, ADivergingRunNamesTheLayer) {
  bad("sluice-run train moe.slx --set train.lr=1e30 --out wild" + quiet + "1", 4,
      {"step 2", "not finite", "in 'embed.weight'", "lower train.lr"});
  // The last good state is there.
  EXPECT_EQ(checkpointHash("wild", 1).size(), 64u);
}

TEST_F(CommandLineTrainTest, ARunIsEvaluatedAndSampled) {
  good("sluice-run train moe.slx --out looked" + quiet + "1");
  std::string evaluation = good("sluice eval looked --data data").out;
  EXPECT_EQ(good("sluice-run eval looked --data data --threads 1").out, evaluation);
  auto evaluations = records(read("looked/metrics.jsonl"), "evaluation");
  char loss[32];
  std::snprintf(loss, sizeof loss, "%.6f nats/token", evaluations.back()["nats_per_token"].get<double>());
  EXPECT_NE(evaluation.find(loss), std::string::npos) << evaluation << loss;
  good("sluice eval looked --data data --checkpoint best");
  good("sluice eval looked --data data --checkpoint looked/checkpoints/step-00000008 --windows 2");
  bad("sluice eval looked --data nodata", 2, {"--data", "nodata"});
  bad("sluice eval looked --data data --checkpoint none", 2, {"--checkpoint", "none"});

  auto generate = [](const std::string &program, const std::string &seed) {
    return run({program, "generate", "looked", "--prompt", "the old", "--tokens", "20", "--seed", seed}).out;
  };
  std::string text = generate("sluice", "1");
  EXPECT_EQ(text.find("the old"), 0u) << text;
  EXPECT_EQ(generate("sluice", "1"), text);
  EXPECT_EQ(generate("sluice-run", "1"), text);
  EXPECT_NE(generate("sluice", "2"), text);
  EXPECT_EQ(good("sluice generate looked --tokens 5 --temperature 0 --seed 1").out,
            good("sluice generate looked --tokens 5 --temperature 0 --seed 2").out);

  // A checkpoint with a flipped byte is not used; where none is left, that is a bad input.
  for (const char *step : {"step-00000007", "step-00000008"}) {
    std::string name = std::string("looked/checkpoints/") + step + "/model.safetensors";
    if (!exists(name))
      continue;
    std::string bytes = read(name);
    bytes[bytes.size() - 9] ^= 1;
    write(name, bytes);
  }
  bad("sluice eval looked --data data --checkpoint looked/checkpoints/step-00000008", 3,
      {"model.safetensors"});
  bad("sluice generate looked", 3, {"expected a valid checkpoint", "step-00000008"});
}

TEST_F(CommandLineTrainTest, ExportedWeightsGiveTheRunsLoss) {
  // Initial weights, then the first step on the same four windows.
  good("sluice-run train moe.slx --stop-after 0 --out weights" + quiet + "1");
  good("sluice-run export weights -o exported");
  EXPECT_TRUE(exists("exported/model.safetensors"));
  EXPECT_TRUE(exists("exported/config.json"));
  good("sluice data windows data --count 4 --seq 32 -o windows.safetensors");
  good("sluice-run train moe.slx --stop-after 128 --out weights" + quiet + "1");
  double expected = records(read("weights/metrics.jsonl"), "train").front()["objective"];

  const std::string arguments = " --weights exported --inputs windows.safetensors --grad -o ";
  good("sluice exec moe.yaml" + arguments + "a.safetensors");
  good("sluice exec moe.yaml --after plan" + arguments + "planned.safetensors");
  good("sluice exec moe.yaml --device cpu" + arguments + "b.safetensors");
  good("sluice exec moe.slx" + arguments + "c.safetensors");
  EXPECT_TRUE(read("b.safetensors") == read("c.safetensors")) << "compiled by exec, or before";
  EXPECT_NE(
      good("sluice exec moe.yaml --bisect --weights exported --inputs windows.safetensors").out.find("agree"),
      std::string::npos);
  StatusOr<SafetensorsFile> interpreter = SafetensorsFile::open(path("a.safetensors"));
  ASSERT_TRUE(interpreter.ok()) << interpreter.status();
  EXPECT_GT(interpreter->tensors().size(), 20u);
  good("sluice exec moe.yaml --device cuda-sim --check memory,init,race,barrier,launch" + arguments +
       "s.safetensors");
  for (const char *name : {"planned.safetensors", "b.safetensors", "s.safetensors"}) {
    StatusOr<SafetensorsFile> other = SafetensorsFile::open(path(name));
    ASSERT_TRUE(other.ok()) << other.status();
    for (const TensorView &tensor : interpreter->tensors()) {
      const TensorView *found = other->find(tensor.name);
      if (tensor.name.starts_with("routing/"))
        continue; // counts beside sums of another size
      ASSERT_NE(found, nullptr) << name << " " << tensor.name;
      ASSERT_EQ(found->shape, tensor.shape) << tensor.name;
      std::vector<double> a = valuesOf(tensor), b = valuesOf(*found);
      double difference = 0, norm = 0;
      for (size_t i = 0; i < a.size(); ++i)
        difference += (a[i] - b[i]) * (a[i] - b[i]), norm += a[i] * a[i];
      EXPECT_LE(std::sqrt(difference), 1e-5 * std::sqrt(norm)) << name << " " << tensor.name;
    }
    EXPECT_NEAR(valuesOf(*other->find("loss"))[0], expected, 1e-5 * expected) << name;
  }
  bad("sluice exec moe.slx --device interpreter" + arguments + "d", 2, {"found the executable"});
  bad("sluice exec moe.yaml --after nowhere" + arguments + "d", 2,
      {"--after: expected a phase, found 'nowhere'"});
  bad("sluice exec moe.yaml --device cpu --check all" + arguments + "d", 2, {"--check", "cuda-sim", "cpu"});
  bad("sluice exec moe.yaml --device cuda-sim --check races" + arguments + "d", 2, {"--check", "'races'"});
  bad("sluice exec moe.yaml --device gpu" + arguments + "d", 2, {"--device"});
  good("sluice data windows data --count 2 --seq 32 -o two.safetensors");
  bad("sluice exec moe.slx --weights exported --inputs two.safetensors", 2, {"[4, 32]", "[2, 32]"});
  bad("sluice exec moe.yaml --set train.lr=1 --weights exported --inputs two.safetensors", 2, {"--set"});
}

} // namespace
} // namespace sluice
