// Masks through the programs: what `masks` reports of a run against the run's own checkpoints, and the
// refusal of masks and weights that do not belong together.
#include "tests/frontends/CommandLine.h"

#include "runtime/checkpoint/Checkpoint.h"
#include "runtime/checkpoint/Safetensors.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <numeric>
#include <sstream>
#include <thread>

namespace sluice {
namespace {

using nlohmann::json;
using CommandLineMaskReportTest = CommandLine;

const std::string quiet = " --data data --sample 0 --quiet --threads 2";

/// The tiny MoE with masks on attention and experts, all checkpoints kept.
std::string maskedSpec(const std::string &base, const std::string &density, const std::string &rest) {
  return base +
         "checkpoint:\n  every_steps: 1\n  keep: 20\nsparsity:\n  targets: [attention, experts]\n  "
         "density: " +
         density + "\n" + rest;
}

std::string checkpointFile(const std::string &run, int step, const std::string &name) {
  return run + "/checkpoints/step-0000000" + std::to_string(step) + "/" + name;
}

/// A tensor's bytes.
std::string bytesOf(const SafetensorsFile &file, const std::string &name) {
  const TensorView *view = file.find(name);
  EXPECT_NE(view, nullptr) << name;
  return view ? std::string(reinterpret_cast<const char *>(view->data), view->bytes) : std::string();
}
bool isKept(const std::string &bits, int64_t i) {
  return (static_cast<uint8_t>(bits[static_cast<size_t>(i / 8)]) >> (i % 8) & 1) != 0;
}

TEST_F(CommandLineMaskReportTest, TheReportSaysWhatTheCheckpointsHold) {
  write("set.yaml", maskedSpec(read("moe.yaml"), "0.25",
                               "  method: set\n  update:\n    every: 3\n    fraction:\n      start: 0.4\n"
                               "  regrown:\n    step: 5\n    ramp: 20\n"));
  good("sluice compile set.yaml -o set.slx");
  good("sluice-run train set.slx --out set --stop-after 0" + quiet);
  const std::string start = read(checkpointFile("set", 0, "optimizer.safetensors"));
  good("sluice-run train set.slx --out set" + quiet);
  const json report = json::parse(good("sluice masks set --json -").out);
  EXPECT_EQ(report["step"], 8);
  EXPECT_EQ(report["method"], "set");
  StatusOr<SafetensorsFile> first = SafetensorsFile::parse(start, "start");
  ASSERT_TRUE(first.ok()) << first.status();
  std::map<int, SafetensorsFile> at;
  for (int step : {2, 3, 5, 6, 8}) {
    StatusOr<SafetensorsFile> file =
        SafetensorsFile::open(path(checkpointFile("set", step, "optimizer.safetensors")));
    ASSERT_TRUE(file.ok()) << file.status();
    at.emplace(step, std::move(*file));
  }
  ASSERT_EQ(report["layers"].size(), 14u); // 4 of attention and 3 of experts, in 2 layers
  ASSERT_EQ(report["updates"].size(), 2u);
  int64_t all = 0;
  for (const json &layer : report["layers"]) {
    const std::string name = layer["name"];
    SCOPED_TRACE(name);
    int64_t weights = 1;
    for (int64_t size : layer["shape"])
      weights *= size;
    const std::string bits = bytesOf(at.at(8), name + ".mask"), before = bytesOf(*first, name + ".mask"),
                      counters = bytesOf(at.at(8), name + ".age");
    const int64_t matrices = layer.contains("experts") ? 4 : 1, size = weights / matrices;
    EXPECT_EQ(layer["shape"].size(), matrices == 4 ? 3u : 2u);
    int64_t kept = 0, shared = 0;
    std::vector<int64_t> keptOf(static_cast<size_t>(matrices)), sharedOf(keptOf);
    std::vector<double> ages;
    for (int64_t i = 0; i < weights; ++i) {
      if (!isKept(bits, i))
        continue;
      ++kept, ++keptOf[static_cast<size_t>(i / size)];
      shared += isKept(before, i), sharedOf[static_cast<size_t>(i / size)] += isKept(before, i);
      float counter;
      std::memcpy(&counter, counters.data() + i * 4, 4);
      // Grown after step 3 or 6 with the count 5; the others have counted all eight.
      ASSERT_TRUE(counter == 8 || counter == 5 + 8 - 3 || counter == 5 + 8 - 6) << counter;
      ages.push_back(counter == 8 ? 8 : (counter == 10 ? 5 : 2));
    }
    all += kept;
    EXPECT_EQ(layer["kept"], kept);
    EXPECT_EQ(layer["weights"], weights);
    EXPECT_EQ(layer["kept_since_start"], shared);
    EXPECT_DOUBLE_EQ(layer["density"], static_cast<double>(kept) / static_cast<double>(weights));
    EXPECT_DOUBLE_EQ(layer["overlap_with_start"], static_cast<double>(shared) / static_cast<double>(kept));
    EXPECT_LT(shared, kept);
    for (size_t expert = 0; matrices > 1 && expert < 4; ++expert) {
      EXPECT_EQ(layer["experts"][expert]["kept"], keptOf[expert]);
      EXPECT_EQ(layer["experts"][expert]["kept_since_start"], sharedOf[expert]);
    }
    std::sort(ages.begin(), ages.end());
    auto quantile = [&](double share) {
      return ages[std::max<size_t>(1,
                                   static_cast<size_t>(std::ceil(share * static_cast<double>(ages.size())))) -
                  1];
    };
    EXPECT_EQ(layer["ages"]["minimum"], ages.front());
    EXPECT_EQ(layer["ages"]["tenth"], quantile(0.1));
    EXPECT_EQ(layer["ages"]["median"], quantile(0.5));
    EXPECT_EQ(layer["ages"]["ninetieth"], quantile(0.9));
    EXPECT_EQ(layer["ages"]["maximum"], ages.back());
    EXPECT_DOUBLE_EQ(layer["ages"]["mean"],
                     std::accumulate(ages.begin(), ages.end(), 0.0) / static_cast<double>(ages.size()));
    for (size_t k = 0; k < 2; ++k) {
      const int step = k == 0 ? 3 : 6;
      const json &change = report["updates"][k]["layers"][name];
      const std::string old = bytesOf(at.at(step - 1), name + ".mask"),
                        now = bytesOf(at.at(step), name + ".mask");
      int64_t grown = 0, dropped = 0;
      for (int64_t i = 0; i < weights; ++i)
        grown += isKept(now, i) && !isKept(old, i), dropped += isKept(old, i) && !isKept(now, i);
      EXPECT_EQ(report["updates"][k]["step"], step);
      EXPECT_EQ(change["grown"], grown);
      EXPECT_EQ(change["dropped"], dropped);
      EXPECT_GT(grown, 0);
      EXPECT_DOUBLE_EQ(change["churn"], static_cast<double>(grown) / static_cast<double>(kept));
    }
  }
  EXPECT_EQ(report["total"]["kept"], all);

  // For people: a table and a picture, also from the runtime alone.
  const std::string table = good("sluice-run masks set --experts --updates 1").out;
  for (const char *part :
       {"masks after step 8, method set", "layers.1.attn.wo", "expert 3", "25.00 %", "2 updates so far"})
    EXPECT_NE(table.find(part), std::string::npos) << part << "\n" << table;
  good("sluice masks set --plot set.svg");
  const std::string svg = read("set.svg");
  for (const char *part : {"<svg xmlns", "attn.wq", "Mean age", "Churn", "schedule", "</svg>"})
    EXPECT_NE(svg.find(part), std::string::npos) << part;
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  const json early =
      json::parse(good("sluice masks set --json - --checkpoint " + checkpointFile("set", 5, "")).out);
  EXPECT_EQ(early["step"], 5);
  EXPECT_EQ(early["updates"].size(), 1u);
}

TEST_F(CommandLineMaskReportTest, RunsThatHaveNoReport) {
  bad("sluice masks nothing", 2, {"RUN", "expected a run folder", "nothing"});
  bad("sluice masks data", 2, {"expected a run folder", "model.slx"});
  good("sluice-run train moe.slx --out dense --stop-after 0" + quiet);
  bad("sluice masks dense", 2, {"dense: expected a run with masks, found a dense model", "sparsity"});
  bad("sluice masks dense --plot nowhere/a.svg", 2, {"--plot", "nowhere"});
  write("static.yaml", maskedSpec(read("moe.yaml"), "0.5", ""));
  good("sluice compile static.yaml -o static.slx");
  good("sluice-run train static.slx --out static --stop-after 0" + quiet);
  EXPECT_NE(good("sluice masks static").out.find("Static masks never change"), std::string::npos);
  good("sluice masks static --plot static.svg");
  EXPECT_NE(read("static.svg").find("No update"), std::string::npos);
  write(checkpointFile("static", 0, "optimizer.safetensors"), "damaged");
  bad("sluice masks static", 3, {"expected a valid checkpoint", "optimizer.safetensors"});
}

TEST_F(CommandLineMaskReportTest, ReportsARunThatIsGoingOn) {
  write("going.yaml", maskedSpec(read("moe.yaml"), "0.25", "  method: set\n  update:\n    every: 2\n"));
  good("sluice compile going.yaml -o going.slx");
  Process process(folder, {"sluice-run", "train", "going.slx", "--tokens", "50M", "--out", "going", "--data",
                           "data", "--sample", "0", "--threads", "1", "--set", "checkpoint.keep=2"});
  for (int tries = 0; tries < 3000 && !exists("going/latest"); ++tries)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  const json report = json::parse(good("sluice masks going --json -").out);
  EXPECT_DOUBLE_EQ(report["total"]["density"], 0.25);
  EXPECT_FALSE(report["layers"][0].contains("ages")) << "this spec counts no ages";
  process.signal(SIGINT);
  EXPECT_EQ(process.wait().code, 5);
}

TEST_F(CommandLineMaskReportTest, MasksAndWeightsThatDoNotBelongTogetherAreRefused) {
  for (auto [name, density] : {std::pair("quarter", "0.25"), {"half", "0.5"}}) {
    const std::string spec = name;
    write(spec + ".yaml", maskedSpec(read("moe.yaml"), density, "  method: set\n  update:\n    every: 2\n"));
    good("sluice compile " + spec + ".yaml -o " + spec + ".slx");
    good("sluice-run train " + spec + ".slx --out " + spec + " --stop-after 512" + quiet);
    good("sluice export " + spec + " -o " + spec + "-weights");
  }
  good("sluice-run train moe.slx --out plain --stop-after 0" + quiet);
  good("sluice export plain -o plain-weights");
  good("sluice data windows data --count 4 --seq 32 -o windows.safetensors");

  // A quarter skips zeros on the CPU, half multiplies them; both agree with plain loops in float64, and a
  // loaded run with its own evaluation.
  for (const std::string spec : {"quarter", "half"}) {
    const std::string arguments = " --weights " + spec + "-weights --inputs windows.safetensors --grad -o ";
    auto loss = [](const std::string &text) { return std::stod(text.substr(text.find("loss ") + 5)); };
    const double expected = loss(good("sluice exec " + spec + ".yaml" + arguments + "a.safetensors").out);
    for (const std::string how : {".yaml --after plan", ".yaml --device cpu", ".slx"})
      EXPECT_NEAR(loss(good("sluice exec " + spec + how + arguments + "b.safetensors").out), expected,
                  1e-5 * expected)
          << how;
    good("sluice exec " + spec + ".yaml --bisect --weights " + spec +
         "-weights --inputs windows.safetensors");
    std::string last;
    std::istringstream lines(read(spec + "/metrics.jsonl"));
    for (std::string line; std::getline(lines, line);)
      if (json record = json::parse(line); record.value("kind", "") == "evaluation")
        last = std::to_string(record["nats_per_token"].get<double>());
    EXPECT_NE(good("sluice eval " + spec + " --data data").out.find(last + " nats/token"), std::string::npos)
        << last;
  }
  for (const std::string model : {"quarter.slx", "quarter.yaml", "quarter.yaml --device cpu"}) {
    SCOPED_TRACE(model);
    const std::string line = "sluice exec " + model + " --inputs windows.safetensors --weights ";
    bad(line + "quarter-weights --masks half-weights/masks.safetensors", 3,
        {"half-weights/masks.safetensors", "layers.0.attn.wq.mask", "256 kept weights of 1024", "found 512"});
    bad(line + "plain-weights", 3, {"layers.0.attn.wq.mask"});
    bad(line + "plain-weights --masks quarter-weights/masks.safetensors", 3,
        {"layers.0.attn.wq'", "expected zeros", "768 other values", "dense model"});
    bad(line + "quarter-weights --masks nothing", 2, {"--masks", "nothing"});
    std::string bytes = read("quarter-weights/masks.safetensors");
    write("short.safetensors", bytes.substr(0, bytes.size() - 8));
    bad(line + "quarter-weights --masks short.safetensors", 3, {"short.safetensors"});
    bytes.back() = static_cast<char>(bytes.back() ^ 1);
    write("flipped.safetensors", bytes);
    bad(line + "quarter-weights --masks flipped.safetensors", 3,
        {"flipped.safetensors", "expert 3", "384 kept weights"});
  }
  // A checkpoint of another density, for a run.
  bad("sluice eval quarter --data data --checkpoint half/checkpoints/step-00000004", 3,
      {"half/checkpoints", "layers.0.attn.wq.mask", "256 kept weights of 1024"});
  bad("sluice masks quarter --checkpoint half/checkpoints/step-00000004", 3,
      {"layers.0.attn.wq.mask", "256"});
  // A model of another width: the bytes of a mask are too many.
  write("narrow.yaml", maskedSpec(read("moe.yaml"), "0.25", ""));
  good("sluice compile narrow.yaml --set model.width=16 -o narrow.slx");
  good("sluice-run train narrow.slx --out narrow --stop-after 0" + quiet);
  good("sluice export narrow -o narrow-weights");
  bad("sluice exec quarter.slx --inputs windows.safetensors --weights quarter-weights --masks "
      "narrow-weights/masks.safetensors",
      3, {"narrow-weights/masks.safetensors", "layers.0.attn.wq.mask", "[128]", "[32]"});
}

/// A copy of a run whose newest checkpoint has been written anew with a changed mask.
void forge(const std::string &from, const std::string &to, const std::string &mask,
           const std::function<void(std::string &bits)> &change) {
  namespace fs = std::filesystem;
  fs::copy(from, to, fs::copy_options::recursive | fs::copy_options::copy_symlinks);
  StatusOr<Checkpoint> checkpoint = Checkpoint::load(from + "/latest");
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  CheckpointContents contents;
  contents.state = checkpoint->state;
  std::string bits;
  for (auto [file, sources] :
       {std::pair{&checkpoint->model, &contents.model}, {&checkpoint->optimizer, &contents.optimizer}})
    for (const TensorView &view : file->tensors()) {
      TensorSource source;
      source.name = view.name, source.type = view.type, source.shape = view.shape, source.data = view.data;
      if (view.name == mask) {
        bits.assign(reinterpret_cast<const char *>(view.data), view.bytes);
        change(bits);
        source.data = bits.data();
      }
      sources->push_back(std::move(source));
    }
  ASSERT_FALSE(bits.empty()) << mask;
  CheckpointStore store(to);
  fs::remove_all(store.pathOf(checkpoint->step));
  ASSERT_TRUE(store.save(checkpoint->step, contents).ok());
}

TEST_F(CommandLineMaskReportTest, AResumedRunChecksItsMasks) {
  write("resumed.yaml", maskedSpec(read("moe.yaml"), "0.25", "  method: set\n  update:\n    every: 2\n"));
  good("sluice compile resumed.yaml -o resumed.slx");
  const std::string line = "sluice-run train resumed.slx --data data --sample 0 --quiet --out ";
  good(line + "resumed --stop-after 384");
  const std::string mask = "layers.0.attn.wq.mask";
  forge(path("resumed"), path("same"), mask, [](std::string &) {});
  good(line + "same");
  forge(path("resumed"), path("more"), mask, [](std::string &bits) {
    for (char &byte : bits)
      if (byte != char(0xff)) {
        byte = static_cast<char>(byte | (byte + 1)); // the lowest bit that is not set
        break;
      }
  });
  bad(line + "more", 3, {"step-00000003", mask, "256 kept weights of 1024", "found 257"});
  forge(path("resumed"), path("moved"), mask, [](std::string &bits) { // as many, of other weights
    std::rotate(bits.begin(), bits.begin() + 1, bits.end());
  });
  bad(line + "moved", 3, {"step-00000003", "layers.0.attn.wq'", "expected zeros where", "other values"});
  bad("sluice eval moved --data data", 3, {mask});
  bad("sluice masks more", 3, {mask, "found 257"});
}

} // namespace
} // namespace sluice
