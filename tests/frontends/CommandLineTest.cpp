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

} // namespace
} // namespace sluice
