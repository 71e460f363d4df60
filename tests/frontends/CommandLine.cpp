#include "tests/frontends/CommandLine.h"

#include "runtime/support/File.h"

#include <nlohmann/json.hpp>

#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <random>
#include <sstream>
#include <sys/wait.h>
#include <unistd.h>

namespace sluice {
namespace {

/// Sentences of a small grammar, a few in a paragraph.
std::string grammarText(int paragraphs) {
  static const std::vector<std::string> determiners = {"the", "a", "every", "one", "that"},
                                        adjectives = {"old",    "small",  "green", "quick",
                                                      "silent", "bright", "heavy"},
                                        nouns = {"river", "farmer", "stone", "bird",    "horse",
                                                 "tower", "garden", "ship",  "teacher", "window"},
                                        verbs = {"sees",    "carries", "builds", "follows",
                                                 "forgets", "finds",   "leaves"},
                                        places = {"near", "under", "behind", "across", "beyond"};
  std::mt19937 random(7);
  auto one = [&](const std::vector<std::string> &words) { return words[random() % words.size()]; };
  std::string text;
  for (int paragraph = 0; paragraph < paragraphs; ++paragraph) {
    for (size_t sentence = 0, count = 1 + random() % 3; sentence < count; ++sentence) {
      for (const auto *words : {&determiners, &adjectives, &nouns, &verbs, &determiners, &nouns, &places,
                                &determiners, &adjectives})
        text += one(*words) + " ";
      text += one(nouns) + ". ";
    }
    text += "\n\n";
  }
  return text;
}

const char *const spec = R"(model:
  vocabulary: 400
  vocabulary_from: data
  width: 32
  layers: 2
  heads: 4
  kv_heads: 2
  tied: true
  moe:
    experts: 4
    top_k: 2
    ffn: 48
losses:
  balance: 0.01
  router_z: 0.001
schedule:
  kind: cosine
  warmup: 10%
train:
  batch: 4
  seq: 32
  tokens: 1024
  lr: 2e-3
log:
  every_steps: 1
)";

} // namespace

std::string CommandLine::folder;

Process::Process(const std::string &folder, const std::vector<std::string> &words) {
  static int count = 0;
  std::string number = std::to_string(++count);
  outPath = folder + "/.out." + number, errPath = folder + "/.err." + number;
  std::string program = std::string(SLUICE_BINARY_DIR) + "/" + words[0];
  std::vector<char *> arguments;
  for (const std::string &word : words)
    arguments.push_back(const_cast<char *>(word.c_str()));
  arguments.push_back(nullptr);
  pid = ::fork();
  if (pid != 0)
    return;
  int out = ::open(outPath.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  int err = ::open(errPath.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  int in = ::open("/dev/null", O_RDONLY);
  if (::chdir(folder.c_str()) == 0 && ::dup2(in, 0) == 0 && ::dup2(out, 1) == 1 && ::dup2(err, 2) == 2)
    ::execv(program.c_str(), arguments.data());
  ::_exit(127);
}

Process::~Process() {
  if (pid > 0) {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
}

void Process::signal(int number) const {
  ::kill(pid, number);
}

Outcome Process::wait() {
  Outcome outcome;
  int status = 0;
  ::waitpid(pid, &status, 0);
  pid = -1;
  outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  outcome.out = readFile(outPath).value_or("");
  outcome.err = readFile(errPath).value_or("");
  return outcome;
}

void CommandLine::SetUpTestSuite() {
  folder = testing::TempDir() + "/sluice-cli-XXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  write("text.txt", grammarText(300));
  write("moe.yaml", spec);
  good("sluice data pack text.txt --vocab 400 -o data");
  good("sluice compile moe.yaml -o moe.slx");
}

void CommandLine::TearDownTestSuite() {
  std::error_code ignored;
  if (!HasFailure()) // what failed can be looked at
    std::filesystem::remove_all(folder, ignored);
}

Outcome CommandLine::run(const std::vector<std::string> &words) {
  return Process(folder, words).wait();
}

Outcome CommandLine::run(const std::string &line) {
  std::istringstream stream(line);
  std::vector<std::string> words;
  for (std::string word; stream >> word;)
    words.push_back(word);
  return run(words);
}

Outcome CommandLine::good(const std::string &line) {
  Outcome outcome = run(line);
  EXPECT_EQ(outcome.code, 0) << line << "\n" << outcome.err;
  return outcome;
}

void CommandLine::bad(const std::string &line, int code, const std::vector<std::string> &parts) {
  Outcome outcome = run(line);
  EXPECT_EQ(outcome.code, code) << line << "\n" << outcome.err;
  for (const std::string &part : parts)
    EXPECT_NE(outcome.err.find(part), std::string::npos) << line << "\nlacks: " << part << "\n"
                                                         << outcome.err;
}

std::string CommandLine::read(const std::string &name) {
  StatusOr<std::string> text = readFile(path(name));
  EXPECT_TRUE(text.ok()) << text.status();
  return text.value_or("");
}

void CommandLine::write(const std::string &name, const std::string &text) {
  ASSERT_TRUE(writeFile(path(name), text).ok());
}

bool CommandLine::exists(const std::string &name) {
  return std::filesystem::exists(path(name));
}

std::string CommandLine::checkpointHash(const std::string &runFolder, int step) {
  char name[32];
  std::snprintf(name, sizeof name, "step-%08d", step);
  std::string text = read(runFolder + "/checkpoints/" + name + "/manifest.json");
  auto manifest = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  // The checksum covers the file names and their hashes.
  return manifest.is_object() ? manifest.value("checksum", "no checksum") : "no manifest";
}

} // namespace sluice
