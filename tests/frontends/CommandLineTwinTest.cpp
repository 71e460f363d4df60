// `twin`, `import` and `stats --convention` as a person meets them: success, each failure, exit codes.
#include "runtime/support/File.h"
#include "tests/frontends/CommandLine.h"

#include <nlohmann/json.hpp>

#include <filesystem>
#include <sstream>

namespace sluice {
namespace {

using CommandLineTwinTest = CommandLine;

TEST_F(CommandLineTwinTest, HelpTeachesWithExamples) {
  for (const char *command : {"sluice twin", "sluice import"}) {
    std::string help = good(std::string(command) + " --help").out;
    EXPECT_NE(help.find("Example"), std::string::npos) << command;
    std::istringstream lines(help);
    for (std::string line; std::getline(lines, line);)
      EXPECT_LE(line.size(), 100u) << command << ": " << line;
  }
}

TEST_F(CommandLineTwinTest, ATwinIsASpecThatStatsReads) {
  // 2 x 48 + 4 / 3 = 97.3: 96 is nearest, 2 layers x 32 x (3 x 96 - (3 x 96 + 4)) away.
  Outcome found = good("sluice twin moe.yaml --tolerance 1% -o dense.yaml --json twin.json");
  EXPECT_NE(found.out.find("-256"), std::string::npos) << found.out;
  EXPECT_NE(found.out.find("written to dense.yaml"), std::string::npos);
  std::istringstream lines(found.out);
  for (std::string line; std::getline(lines, line);)
    EXPECT_LE(line.size(), 100u) << line;
  nlohmann::json twin = nlohmann::json::parse(read("twin.json"));
  ASSERT_FALSE(twin["candidates"].empty());
  EXPECT_EQ(twin["candidates"][0]["sizes"]["ffn"], "96");
  EXPECT_EQ(twin["candidates"][0]["residual"], "-256");
  nlohmann::json dense = nlohmann::json::parse(good("sluice stats dense.yaml --json -").out);
  EXPECT_EQ(dense["parameters"]["active"], twin["candidates"][0]["count"]);
  EXPECT_EQ(dense["flops"]["training"]["ideal"], twin["figures"]["flops"]["twin"]);
  nlohmann::json moe = nlohmann::json::parse(good("sluice stats moe.yaml --json -").out);
  EXPECT_EQ(twin["target"], moe["parameters"]["active"]);
  EXPECT_EQ(twin["figures"]["flops"]["reference"], moe["flops"]["training"]["ideal"]);
  // A graph counts the same.
  good("sluice twin moe.yaml --tolerance 1% -o dense.mlir");
  EXPECT_EQ(nlohmann::json::parse(good("sluice stats dense.mlir --json -").out)["flops"], dense["flops"]);
  // And back: experts for the dense model.
  good("sluice twin dense.yaml --match flops --vary experts --top-k 2 --range experts=4:8 --tolerance 2% -o "
       "back.yaml");
  EXPECT_NE(read("back.yaml").find("losses.balance is new"), std::string::npos);
  EXPECT_NE(good("sluice twin moe.yaml --tolerance 1% --tokens 1M").out.find("tokens of the reference"),
            std::string::npos);
}

TEST_F(CommandLineTwinTest, GraphsAndExecutablesRememberTheirSizes) {
  good("sluice graph moe.yaml -o moe.mlir");
  good("sluice twin moe.yaml --match flops --tolerance 1% --json spec.json -o spec-twin.yaml");
  const nlohmann::json fromSpec = nlohmann::json::parse(read("spec.json"));
  auto counts = [&](const std::string &spec) {
    return nlohmann::json::parse(good("sluice stats " + spec + " --json -").out);
  };
  const nlohmann::json expected = counts("spec-twin.yaml");
  for (const char *model : {"moe.mlir", "moe.slx"}) {
    good(std::string("sluice twin ") + model +
         " --match flops --tolerance 1% --json built.json -o built.yaml");
    const nlohmann::json fromGraph = nlohmann::json::parse(read("built.json"));
    EXPECT_EQ(fromGraph["candidates"], fromSpec["candidates"]) << model;
    EXPECT_EQ(fromGraph["figures"], fromSpec["figures"]) << model;
    const nlohmann::json found = counts("built.yaml"); // with the sizes and the training section of the model
    EXPECT_EQ(found["flops"], expected["flops"]) << model;
    EXPECT_EQ(found["sizes"], expected["sizes"]) << model;
  }
  // With experts again: the losses of the router are those of the graph.
  good("sluice twin moe.slx --vary experts --range experts=4 --tolerance 0 --top-k 2 -o same.yaml");
  EXPECT_EQ(counts("same.yaml")["flops"], counts("moe.yaml")["flops"]);

  // A graph that was changed by hand is not what its configuration says.
  std::string changed = read("moe.mlir");
  for (size_t at = 0; (at = changed.find("hidden_size = 32", at)) != std::string::npos; at += 8)
    changed.replace(at, 16, "hidden_size = 64");
  ASSERT_NE(changed, read("moe.mlir"));
  write("changed.mlir", changed);
  bad("sluice twin changed.mlir", 2, {"changed.mlir", "total parameters", "give the spec"});
  std::string bare = read("moe.mlir");
  const size_t config = bare.find("sluice.model_config");
  ASSERT_NE(config, std::string::npos);
  bare.replace(config, 19, "sluice.forgotten");
  write("bare.mlir", bare);
  bad("sluice twin bare.mlir", 2, {"bare.mlir", "remembers its configuration"});
}

TEST_F(CommandLineTwinTest, NoSolutionNamesTheNearestTwo) {
  bad("sluice twin moe.yaml --tolerance 0 -o none.yaml", 1,
      {"no dense model within 0", "the nearest two", "ffn 96", "-256", "ffn 104", "--tolerance"});
  EXPECT_FALSE(exists("none.yaml"));
}

TEST_F(CommandLineTwinTest, WrongFlagsAreNamed) {
  bad("sluice twin", 2, {"MODEL", "--experts-for"});
  bad("sluice twin mo.yaml", 2, {"MODEL: expected", "did you mean 'moe.yaml'?"});
  bad("sluice twin moe.yaml --match size", 2, {"--match", "active", "found 'size'"});
  bad("sluice twin moe.yaml --vary fnn", 2, {"--vary", "found 'fnn'", "did you mean 'ffn'"});
  bad("sluice twin moe.yaml --tolerance x", 2, {"--tolerance", "found 'x'"});
  bad("sluice twin moe.yaml --target x", 2, {"--target", "found 'x'"});
  bad("sluice twin moe.yaml --range ffn", 2, {"--range", "found 'ffn'"});
  bad("sluice twin moe.yaml --range ffn=9:8", 2, {"--range", "found 'ffn=9:8'"});
  bad("sluice twin moe.yaml --top-k 2", 2, {"--top-k", "--vary experts"});
  bad("sluice twin moe.yaml -o dense.txt", 2, {"--output", "dense.txt"});
  bad("sluice twin moe.yaml --experts-for N=1B", 2, {"--experts-for", "found 'moe.yaml'"});
  bad("sluice twin --experts-for N=1B", 2, {"active-rate"});
}

TEST_F(CommandLineTwinTest, ExpertsForASize) {
  Outcome found =
      good("sluice twin --experts-for "
           "N=2.1506B,active-rate=19.94%,top-k=7,width=1408,layers=16,ffn=3904,C=9.36e20,unique=65B");
  EXPECT_NE(found.out.find("     92     7    320   2240"), std::string::npos) << found.out;
  good("sluice twin --experts-for "
       "N=2.1506B,active-rate=19.94%,top-k=7,width=1408,layers=16,ffn=3904 -o optimum.yaml");
  nlohmann::json optimum = nlohmann::json::parse(
      good("sluice stats optimum.yaml --bind batch=1,seq=2048 --convention 2506.12119 --json -").out);
  EXPECT_EQ(optimum["conventions"][0]["parameters"], "2150612992");
  EXPECT_EQ(optimum["conventions"][0]["figures"]["activation_percent"], "19.87");
  EXPECT_EQ(optimum["conventions"][0]["figures"]["activation_percent_with_router"], "19.94");
  good("sluice twin --experts-for "
       "N=30M,active-rate=42%,top-k=2,width=256,layers=4,head-dim=32,ffn=768,shared=no,"
       "dense-layers=0,tolerance=5%,vocabulary=1000 -o experts.yaml");
  EXPECT_NE(good("sluice stats experts.yaml --bind batch=1,seq=8 --convention 2506.12119").out.find("r_a"),
            std::string::npos);
  bad("sluice twin --experts-for N=1k,active-rate=20%,top-k=2", 1, {"no number of experts"});
}

TEST_F(CommandLineTwinTest, ConventionsOfPapers) {
  nlohmann::json stats = nlohmann::json::parse(good("sluice stats moe.yaml --json -").out);
  nlohmann::json exact = nlohmann::json::parse(good("sluice stats moe.yaml --convention exact --json -").out);
  EXPECT_EQ(exact["conventions"][0]["flops"]["training"], stats["flops"]["training"]["ideal"]);
  EXPECT_EQ(exact["conventions"][0]["flops"]["forward"], stats["flops"]["forward"]["ideal"]);
  nlohmann::json sixN = nlohmann::json::parse(good("sluice stats moe.yaml --convention 6n --json -").out);
  long active = std::stol(stats["parameters"]["active"].get<std::string>());
  EXPECT_EQ(sixN["conventions"][0]["flops"]["training"], std::to_string(6 * active * 4 * 32));
  std::string all = good("sluice stats moe.yaml --convention all").out;
  for (const char *part : {"megatron-recompute", "2606.01155", "chinchilla-text", "/ exact"})
    EXPECT_NE(all.find(part), std::string::npos) << part;
  std::istringstream lines(all);
  for (std::string line; std::getline(lines, line);)
    EXPECT_LE(line.size(), 100u) << line;
  bad("sluice stats moe.yaml --convention palms", 2, {"--convention", "palm", "found 'palms'"});
  // A graph and an executable give every convention the same numbers.
  good("sluice graph moe.yaml -o moe.mlir");
  for (const char *model : {"moe.mlir", "moe.slx"})
    EXPECT_EQ(good(std::string("sluice stats ") + model + " --convention all").out, all) << model;
}

TEST_F(CommandLineTwinTest, ImportChecksTheWeights) {
  const std::string fixture = std::string(SLUICE_TEST_DATA) + "/mixtral-4x-top2";
  Outcome imported = good("sluice import " + fixture + " -o mixtral.mlir");
  EXPECT_NE(imported.out.find("its weights fit"), std::string::npos) << imported.out;
  EXPECT_EQ(good("sluice graph " + fixture).out, read("mixtral.mlir"));
  EXPECT_EQ(good("sluice import " + fixture + " -o -").out, read("mixtral.mlir"));
  good("sluice import " + fixture);
  EXPECT_NE(good("sluice import " + fixture + "/config.json").out.find("its weights fit"), std::string::npos);
  nlohmann::json config = nlohmann::json::parse(*readFile(fixture + "/config.json"));
  config["num_hidden_layers"] = config["num_hidden_layers"].get<int>() + 1;
  std::filesystem::create_directory(path("scratch"));
  write("scratch/config.json", config.dump());
  EXPECT_NE(good("sluice import scratch").out.find("no weights"), std::string::npos);
  write("scratch/model.safetensors", *readFile(fixture + "/model.safetensors"));
  bad("sluice import scratch -o scratch.mlir", 3, {"missing, needed by the graph", "experts.0.w1.weight"});
  EXPECT_FALSE(exists("scratch.mlir"));
  bad("sluice import moe.yaml", 2, {"FOLDER", "moe.yaml"});
  bad("sluice import nofolder", 2, {"FOLDER", "nofolder"});
}

} // namespace
} // namespace sluice
