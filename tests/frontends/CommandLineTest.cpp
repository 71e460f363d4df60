// The command line as a new user meets it: every command with success and with each of its failures, exit
// codes and messages. What training through the programs must keep to the bit is in CommandLineTrainTest.cpp.
#include "tests/frontends/CommandLine.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <sstream>

namespace sluice {
namespace {

using CommandLineTest = CommandLine;

const std::vector<std::string> phaseNames = {
    "parse",       "bind",         "flatten",      "differentiate", "precision", "save-or-recompute",
    "lower-masks", "fuse-experts", "form-kernels", "plan"};

TEST_F(CommandLineTest, HelpFitsAHundredColumns) {
  for (const char *command :
       {"sluice", "sluice graph", "sluice stats", "sluice compile", "sluice inspect", "sluice data",
        "sluice data pack", "sluice data info", "sluice data windows", "sluice train", "sluice eval",
        "sluice generate", "sluice exec", "sluice export", "sluice masks", "sluice schema", "sluice-run",
        "sluice-run train"}) {
    std::string help = good(std::string(command) + " --help").out;
    EXPECT_GT(help.size(), 100u) << command;
    std::istringstream lines(help);
    for (std::string line; std::getline(lines, line);)
      EXPECT_LE(line.size(), 100u) << command << ": " << line;
  }
  EXPECT_NE(good("sluice --version").out.find("sluice "), std::string::npos);
}

TEST_F(CommandLineTest, UnknownWordsAreNamedWithTheNearest) {
  bad("sluice", 2, {"expected a command", "compile", "--help"});
  bad("sluice trian", 2, {"found 'trian'", "did you mean 'train'", "sluice --help"});
  bad("sluice data pak", 2, {"found 'pak'", "did you mean 'pack'", "sluice data --help"});
  bad("sluice-run compile moe.yaml -o x.slx", 2, {"found 'compile'", "train"});
  bad("sluice train moe.yaml --dta data --out r", 2, {"unknown option '--dta'", "did you mean '--data'"});
  bad("sluice train moe.yaml --out r", 2, {"--data"});
  bad("sluice graph", 2, {"MODEL"});
  bad("sluice graph moe.yaml moe.yaml", 2, {"found 'moe.yaml'"});
  bad("sluice train moe.yaml --data data --out r --seed -3", 2, {"--seed"});
  bad("sluice train moe.yaml --data data --out r --threads 0", 2, {"--threads"});
  bad("sluice train moe.yaml --data data --out r --seed x", 2, {"--seed", "x"});
}

TEST_F(CommandLineTest, WhatIsNotThereIsAUsageError) {
  for (const char *line :
       {"sluice graph mo.yaml", "sluice stats mo.yaml", "sluice compile mo.yaml -o x.slx",
        "sluice train mo.yaml --data data --out r", "sluice exec mo.yaml --weights moe.slx --inputs moe.slx"})
    bad(line, 2, {"MODEL: expected", "nothing at 'mo.yaml'", "did you mean 'moe.yaml'?"});
  bad("sluice inspect no.slx", 2, {"expected an executable", "no.slx"});
  bad("sluice-run train no.slx --data data --out r", 2, {"MODEL", "no.slx"});
  bad("sluice-run train moe.slx --data nodata --out r", 2, {"--data: expected a folder", "nodata"});
  bad("sluice-run train moe.slx --data text.txt --out r", 2, {"--data: expected a folder", "dataset.json"});
  bad("sluice-run train moe.slx --data data --out text.txt", 2, {"--out", "text.txt"});
  bad("sluice eval norun --data data", 2, {"norun: expected a run folder"});
  bad("sluice generate norun", 2, {"norun: expected a run folder"});
  bad("sluice export norun -o e", 2, {"norun: expected a run folder"});
  bad("sluice data info nodata", 2, {"DATA: expected a folder", "nodata"});
  bad("sluice data windows nodata -o w", 2, {"DATA: expected a folder", "nodata"});
  bad("sluice data pack no.txt -o d", 2, {"TEXT: expected a text file", "no.txt"});
  bad("sluice data pack text.txt --tokenizer no.model -o d", 2, {"--tokenizer", "no.model"});
  bad("sluice exec moe.yaml --weights now --inputs text.txt", 2, {"--weights", "now"});
  bad("sluice exec moe.yaml --weights moe.slx --inputs noi", 2, {"--inputs", "noi"});
  bad("sluice compile moe.yaml -o nofolder/x.slx", 2, {"--output: expected a folder at 'nofolder'"});
  bad("sluice stats moe.yaml --json nofolder/x.json", 2, {"--json: expected a folder at 'nofolder'"});
}

TEST_F(CommandLineTest, ForeignFilesAreBadInput) {
  write("foreign.slx", read("text.txt"));
  write("empty.slx", "");
  std::string bytes = read("moe.slx");
  write("short.slx", bytes.substr(0, bytes.size() / 3));
  std::vector<std::string> damaged = {"foreign.slx", "empty.slx", "short.slx"};
  // A bit in the header, in the description, in the middle and in the last bytes.
  for (size_t at : {size_t{2}, size_t{5000}, bytes.size() / 2, bytes.size() - 3}) {
    std::string flipped = bytes;
    flipped[at] = static_cast<char>(flipped[at] ^ 4);
    damaged.push_back("flipped" + std::to_string(at) + ".slx");
    write(damaged.back(), flipped);
  }
  for (const std::string &name : damaged)
    for (const std::string &line : {"sluice inspect " + name, "sluice stats " + name,
                                    "sluice-run train " + name + " --data data --out damaged"}) {
      Outcome outcome = run(line);
      EXPECT_EQ(outcome.code, 3) << line << outcome.err;
      EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << line << "\n" << outcome.err;
      EXPECT_NE(outcome.err.find(name + ": expected"), std::string::npos) << outcome.err;
      EXPECT_EQ(outcome.out, "");
    }
  EXPECT_FALSE(exists("damaged"));
  bad("sluice exec moe.yaml --weights text.txt --inputs text.txt", 3, {"text.txt"});
  bad("sluice-run train moe.yaml --data data --out r", 3, {"moe.yaml: expected an executable"});
  run("sluice data pack text.txt --vocab 400 -o broken");
  write("broken/dataset.json", "{");
  bad("sluice data info broken", 3, {"broken/dataset.json"});
  bad("sluice graph text.txt", 2, {"text.txt: expected a spec"});
}

TEST_F(CommandLineTest, GraphIsReadable) {
  std::string text = good("sluice graph moe.yaml").out;
  for (const char *part : {"sluice.graph", "\"layers\"", "sluice.route", "sluice.experts", "\"embed\""})
    EXPECT_NE(text.find(part), std::string::npos) << part;
  good("sluice graph moe.yaml -o moe.mlir");
  EXPECT_EQ(read("moe.mlir"), text);
  // The names of values are notation, lost in reading; all else reads back as itself and compiles alike.
  good("sluice graph moe.mlir -o again.mlir");
  EXPECT_TRUE(good("sluice graph again.mlir").out == read("again.mlir"));
  good("sluice compile again.mlir -o again.slx");
  EXPECT_TRUE(read("again.slx") == read("moe.slx")) << "compiled from a graph and from its spec";
  write("bad.mlir", "sluice.graph @x {");
  bad("sluice graph bad.mlir", 2, {"bad.mlir:1:"});
  write("bad.yaml", read("moe.yaml") + "optimzer:\n  clip: 1\n");
  bad("sluice graph bad.yaml", 2, {"bad.yaml:26", "optimzer", "did you mean 'optimizer'"});
  bad("sluice graph moe.yaml --set model.moe.top_k=5", 2, {"top_k", "4"});
  bad("sluice graph moe.yaml --set model.layer=5", 2, {"model.layer", "did you mean 'model.layers'"});
  bad("sluice graph moe.mlir --set model.layers=5", 2, {"--set"});
}

TEST_F(CommandLineTest, StatsOfEveryFormOfAModel) {
  std::string table = good("sluice stats moe.yaml").out;
  EXPECT_NE(table.find("parameters"), std::string::npos);
  nlohmann::json json = nlohmann::json::parse(good("sluice stats moe.yaml --json -").out);
  // Embedding 400 x 32; a layer: attention 32 x (32 + 16 + 16 + 32), norms 64, router 32 x 4, experts 4 x 3 x
  // 32 x 48.
  long layer = 32 * 96 + 64 + 128 + 4 * 3 * 32 * 48, total = 400 * 32 + 2 * layer + 32;
  EXPECT_EQ(json["parameters"]["total"], std::to_string(total));
  EXPECT_EQ(json["parameters"]["active"], std::to_string(total - 2 * 2 * 3 * 32 * 48));
  EXPECT_TRUE(json["flops"]["training"]["ideal"].is_string());
  good("sluice stats moe.yaml --json stats.json");
  EXPECT_EQ(nlohmann::json::parse(read("stats.json")), json);
  good("sluice graph moe.yaml -o moe.mlir");
  EXPECT_EQ(good("sluice stats moe.mlir").out, table) << "a graph remembers its spec's sizes";
  EXPECT_NE(good("sluice stats moe.yaml --bind batch=2,seq=64").out, table);

  // The executable holds the planned program's ledger: the same counts up to what is executed and computed
  // again.
  std::string planned = good("sluice stats moe.slx").out;
  EXPECT_EQ(planned.substr(0, planned.find("FLOP in contractions")),
            table.substr(0, table.find("FLOP in contractions")));
  nlohmann::json held = nlohmann::json::parse(good("sluice stats moe.slx --json -").out);
  EXPECT_EQ(held["parameters"], json["parameters"]);
  for (const char *part : {"forward", "backward", "training", "optimizer", "routing", "mask_update"})
    for (const char *reading : {"ideal", "dense", "full_attention", "classes", "dense_classes"})
      EXPECT_EQ(held["flops"][part][reading], json["flops"][part][reading]) << part << " " << reading;

  for (const char *by : {"op", "layer", "module", "role"})
    EXPECT_NE(good(std::string("sluice stats moe.yaml --by ") + by).out.find("total"), std::string::npos);
  std::string roof = good("sluice stats moe.yaml --by op --machine peak=1TFLOP/s,bandwidth=10GB/s").out;
  EXPECT_NE(roof.find("roofline of a micro-batch: at least"), std::string::npos) << roof;
  std::string csv = good("sluice stats moe.yaml --csv -").out;
  EXPECT_EQ(csv.find("graph,path,layer,role,direction,op,executions,ideal_contraction"), 0u)
      << csv.substr(0, 200);
  std::string same = good("sluice stats --compare moe.yaml moe.mlir").out;
  EXPECT_EQ(same.find(" x 1"), std::string::npos) << "nothing differs: " << same;
  nlohmann::json run = nlohmann::json::parse(good("sluice stats moe.yaml --per run=1B --json -").out);
  EXPECT_EQ(run["per"].get<std::string>().find("run of 1,000,000,000 tokens"), 0u);
  bad("sluice stats moe.yaml --by colour", 2, {"--by", "colour"});
  bad("sluice stats moe.yaml --per epoch", 2, {"--per", "epoch"});
  bad("sluice stats moe.yaml --machine peak=1", 2, {"--machine", "FLOP/s"});
  bad("sluice stats", 2, {"MODEL"});

  write("uncounted.mlir", R"(
sluice.graph @model(%tokens: tensor<2x3xi32>, %targets: tensor<2x3xi32>) {
  %table = sluice.param "table" init #sluice.normal<0.02> role "embedding" : tensor<5x4xf32>
  %h = sluice.embedding %tokens, %table : (tensor<2x3xi32>, tensor<5x4xf32>) -> tensor<2x3x4xf32>
  %a = arith.addf %h, %h : tensor<2x3x4xf32>
  %b = math.exp %a : tensor<2x3x4xf32>
  %l = sluice.linear %b, %table : (tensor<2x3x4xf32>, tensor<5x4xf32>) -> tensor<2x3x5xf32>
  %s = sluice.cross_entropy %l, %targets : (tensor<2x3x5xf32>, tensor<2x3xi32>) -> tensor<f32>
  sluice.return %l, %s ["logits", "loss_sum"] : tensor<2x3x5xf32>, tensor<f32>
}
)");
  bad("sluice stats uncounted.mlir", 1,
      {"arith.addf, 2 times: @logits, @model", "math.exp, 2 times: @logits, @model"});
  bad("sluice stats moe.slx --bind batch=2,seq=2", 2, {"--bind"});
  bad("sluice stats moe.yaml --bind batch=x", 2, {"batch=x", "NAME=SIZE"});
}

TEST_F(CommandLineTest, CompileStopsAfterEveryPhase) {
  Outcome compiled = good("sluice compile moe.yaml -o explained.slx --explain --save-temps temps --timing");
  EXPECT_TRUE(read("explained.slx") == read("moe.slx")) << "the same input gives the same file";
  for (const char *part : {"fused in 'layers.0.moe", "experts_up", "saved for the backward"})
    EXPECT_NE(compiled.out.find(part), std::string::npos) << part;
  for (size_t index = 0; index < phaseNames.size(); ++index) {
    std::string text = good("sluice compile moe.yaml --to=" + phaseNames[index]).out;
    EXPECT_NE(text.find("module"), std::string::npos) << phaseNames[index];
    EXPECT_EQ(read("temps/" + std::to_string(index) + "-" + phaseNames[index] + ".mlir"), text)
        << phaseNames[index];
    EXPECT_NE(compiled.err.find(phaseNames[index]), std::string::npos) << "timing of " << phaseNames[index];
  }
  bad("sluice compile moe.yaml --to=fuse", 2, {"--to: expected a phase, found 'fuse'", "fuse-experts"});
  bad("sluice compile moe.yaml", 2, {"-o FILE.slx"});
  bad("sluice compile moe.slx -o x.slx", 2, {"moe.slx", "found an executable"});
  bad("sluice compile moe.yaml --bind bacth=4,seq=8 -o x.slx", 2, {"batch", "names of this model"});
}

TEST_F(CommandLineTest, InspectShowsTheExecutable) {
  std::string text = good("sluice inspect moe.slx").out;
  for (const char *part :
       {"sha256", "Memory", "accumulate", "apply", "eval", "logits", "experts_up", "embed.weight"})
    EXPECT_NE(text.find(part), std::string::npos) << part;
  EXPECT_EQ(good("sluice-run inspect moe.slx").out, text);
  EXPECT_GT(good("sluice inspect moe.slx --commands").out.size(), text.size());
}

TEST_F(CommandLineTest, DataIsPackedAndLookedAt) {
  std::string info = good("sluice data info data").out;
  EXPECT_NE(info.find("vocabulary 400"), std::string::npos) << info;
  EXPECT_NE(info.find("validation"), std::string::npos) << info;
  bad("sluice data pack text.txt --vocab 400 -o data", 2, {"already holds a dataset"});
  good("sluice data pack text.txt --vocab 400 -o again --documents line --threads 1");
  good("sluice data pack text.txt --vocab 400 -o again --replace");
  EXPECT_EQ(read("again/dataset.json"), read("data/dataset.json")) << "on any number of threads";
  good("sluice data pack text.txt --tokenizer " + std::string("data/tokenizer.model") + " -o same");
  EXPECT_EQ(read("same/dataset.json"), read("data/dataset.json"));
  bad("sluice data pack text.txt --vocab 400 --documents words -o d", 2, {"--documents", "found 'words'"});
  bad("sluice data pack text.txt --vocab 400 --documents file -o d", 2, {"split is empty", "--documents"});
  bad("sluice data windows data -o w --seq 0", 2, {"seq"});
  bad("sluice data windows data -o w --count 0", 2, {"--count"});
  bad("sluice data windows data -o w --mode words", 2, {"--mode"});
}

TEST_F(CommandLineTest, ASequenceBeyondThePositionTableIsCountedNotCompiled) {
  const std::string model = std::string(SLUICE_TEST_DATA) + "/gpt2";
  const Outcome counted = good("sluice stats " + model + " --bind batch=1,seq=99");
  EXPECT_NE(counted.err.find("seq = 99 is longer than the table of 16 learned positions"), std::string::npos)
      << counted.err;
  bad("sluice compile " + model + " --bind batch=1,seq=99 -o long.slx", 1,
      {"sluice.position_embedding", "the sequence is longer than the table"});
}

} // namespace
} // namespace sluice
