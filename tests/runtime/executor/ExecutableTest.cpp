// The executable file: what is written is read back, and nothing damaged or foreign is accepted.
#include "runtime/executor/Inspect.h"
#include "runtime/schema/ExecutableDescription.h"
#include "runtime/support/File.h"
#include "runtime/support/Hash.h"
#include "tests/runtime/executor/TinyModel.h"

#include <algorithm>
#include <gtest/gtest.h>

namespace sluice {
namespace {

ExecutableDescription model() {
  ExecutableDescription description = testing::tinyModel({.experts = 4});
  description.kernels.push_back(
      {"cpu:x86-64-v3", std::string("object\0file", 11), "source text", {"k0", "k1"}});
  description.kernels.push_back({"cuda:sm_90a", std::string(200, 'c'), "", {"k0"}});
  description.derived.push_back({"head/packed", "head", "packed"});
  return description;
}

/// An error of one line that ends the program with exit code 3.
void expectRefused(const StatusOr<Executable> &loaded, const std::string &what) {
  ASSERT_FALSE(loaded.ok()) << what;
  EXPECT_EQ(exitCode(loaded.status()), ExitCode::BadInput) << what << ": " << loaded.status().ToString();
  EXPECT_EQ(loaded.status().message().find('\n'), absl::string_view::npos) << what;
}

TEST(Executable, RoundTrip) {
  ExecutableDescription written = model();
  std::string bytes = serializeExecutable(written);
  EXPECT_EQ(bytes, serializeExecutable(written)) << "the same description gives the same file";
  StatusOr<Executable> loaded = parseExecutable(bytes, "model.slx");
  ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
  const ExecutableDescription &read = loaded->description;
  EXPECT_EQ(loaded->bytes, bytes);
  EXPECT_EQ(read.model, "tiny");
  ASSERT_EQ(read.tensors.size(), written.tensors.size());
  for (size_t index = 0; index < read.tensors.size(); ++index) {
    EXPECT_EQ(read.tensors[index].name, written.tensors[index].name);
    EXPECT_EQ(read.tensors[index].role, written.tensors[index].role);
    EXPECT_EQ(read.tensors[index].parameter, written.tensors[index].parameter);
    EXPECT_EQ(read.tensors[index].checkpointName, written.tensors[index].checkpointName);
    EXPECT_EQ(read.tensors[index].place.shape, written.tensors[index].place.shape);
    EXPECT_EQ(read.tensors[index].place.offset, written.tensors[index].place.offset);
    EXPECT_EQ(read.tensors[index].decay, written.tensors[index].decay);
  }
  ASSERT_EQ(read.entries.size(), written.entries.size());
  for (size_t e = 0; e < read.entries.size(); ++e) {
    ASSERT_EQ(read.entries[e].commands.size(), written.entries[e].commands.size());
    EXPECT_EQ(read.entries[e].flops, written.entries[e].flops);
    EXPECT_EQ(read.entries[e].inputs.size(), written.entries[e].inputs.size());
    EXPECT_EQ(read.entries[e].outputs.size(), written.entries[e].outputs.size());
    for (size_t c = 0; c < read.entries[e].commands.size(); ++c) {
      const Command &a = read.entries[e].commands[c], &b = written.entries[e].commands[c];
      EXPECT_EQ(a.kind, b.kind);
      EXPECT_EQ(a.origin, b.origin);
      EXPECT_EQ(a.dependencies, b.dependencies);
      ASSERT_EQ(a.attributes.size(), b.attributes.size());
      for (size_t i = 0; i < a.attributes.size(); ++i) {
        EXPECT_EQ(a.attributes[i].name, b.attributes[i].name);
        EXPECT_EQ(a.attributes[i].value, b.attributes[i].value);
      }
      ASSERT_EQ(a.inputs.size(), b.inputs.size());
      for (size_t i = 0; i < a.inputs.size(); ++i)
        EXPECT_EQ(a.inputs[i].offset, b.inputs[i].offset);
    }
  }
  ASSERT_EQ(read.kernels.size(), 2u);
  EXPECT_EQ(read.kernels[0].image, written.kernels[0].image);
  EXPECT_EQ(read.kernels[0].source, "source text");
  EXPECT_EQ(read.kernels[1].image, written.kernels[1].image);
  EXPECT_EQ(serializeExecutable(read), bytes);
}

TEST(Executable, PayloadsAreAligned) {
  ExecutableDescription description = model();
  std::string bytes = serializeExecutable(description);
  EXPECT_EQ(bytes.find(description.kernels[0].image) % 64, 0u);
  EXPECT_EQ(bytes.find(description.kernels[1].image) % 64, 0u);
}

TEST(Executable, EveryTruncationIsRefused) {
  std::string bytes = serializeExecutable(model());
  for (size_t length = 0; length < bytes.size(); length += length < 256 ? 1 : 61)
    expectRefused(parseExecutable(bytes.substr(0, length), "model.slx"), concat("length ", length));
  expectRefused(parseExecutable(bytes.substr(0, bytes.size() - 1), "model.slx"), "one byte short");
  expectRefused(parseExecutable(bytes + '\0', "model.slx"), "one byte more");
}

TEST(Executable, EveryBitFlipIsRefused) {
  std::string bytes = serializeExecutable(model());
  for (size_t position = 0; position < bytes.size(); position += position < 512 ? 1 : 37)
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = bytes;
      damaged[position] ^= static_cast<char>(1 << bit);
      expectRefused(parseExecutable(damaged, "model.slx"), concat("byte ", position, ", bit ", bit));
    }
}

/// With the hash made right again, only the verifier and the rules stand between a damaged file and the
/// reader: they may accept it (a changed name is a fine name), but nothing may be read outside the file.
TEST(Executable, DamageBehindAValidHashIsReadSafely) {
  std::string bytes = serializeExecutable(model());
  std::string digest;
  std::string hex = parseExecutable(bytes, "model.slx")->sha256;
  for (size_t index = 0; index < hex.size(); index += 2)
    digest += static_cast<char>(std::stoi(hex.substr(index, 2), nullptr, 16));
  size_t place = bytes.find(digest);
  ASSERT_NE(place, std::string::npos);
  int refused = 0, accepted = 0;
  for (size_t position = 0; position < bytes.size(); position += 3) {
    if (position >= place && position < place + digest.size())
      continue;
    for (unsigned char mask : {0x01, 0x80, 0xff}) {
      std::string damaged = bytes;
      damaged[position] = static_cast<char>(damaged[position] ^ mask);
      std::string unhashed = damaged;
      std::fill_n(unhashed.begin() + static_cast<ptrdiff_t>(place), digest.size(), '\0');
      Sha256 hash;
      hash.update(unhashed);
      std::array<uint8_t, 32> right = hash.finish();
      std::copy(right.begin(), right.end(), damaged.begin() + static_cast<ptrdiff_t>(place));
      StatusOr<Executable> loaded = parseExecutable(std::move(damaged), "model.slx");
      ++(loaded.ok() ? accepted : refused);
      if (loaded.ok())
        EXPECT_TRUE(checkExecutable(loaded->description, "model.slx").ok());
      else
        EXPECT_EQ(exitCode(loaded.status()), ExitCode::BadInput) << loaded.status().ToString();
    }
  }
  EXPECT_GT(refused, 1000);
  EXPECT_GT(accepted, 100);
}

TEST(Executable, ForeignFilesAreRefused) {
  expectRefused(parseExecutable("", "empty"), "empty");
  expectRefused(parseExecutable(std::string(1000, '\0'), "zeros"), "zeros");
  expectRefused(parseExecutable("\x7f"
                                "ELF and then quite some more bytes",
                                "elf"),
                "elf");
  expectRefused(parseExecutable("vocab: 4096\nmodel:\n  layers: 4\n", "spec"), "yaml");
  EXPECT_EQ(exitCode(loadExecutable("/nonexistent/model.slx").status()), ExitCode::Usage);
}

TEST(Executable, AnotherFormatVersionIsRefused) {
  ExecutableDescription description = model();
  description.formatVersion = executableFormatVersion + 1;
  StatusOr<Executable> loaded = parseExecutable(serializeExecutable(description), "model.slx");
  expectRefused(loaded, "version");
  EXPECT_NE(loaded.status().message().find("format version 1"), absl::string_view::npos);
}

/// Each edit breaks one rule; files are hashed after the edit, so only the semantic check can refuse them.
TEST(Executable, EveryRuleIsChecked) {
  using Edit = void (*)(ExecutableDescription &);
  const std::pair<const char *, Edit> edits[] = {
      {"no model name", [](auto &m) { m.model.clear(); }},
      {"training is no object", [](auto &m) { m.training = "[1]"; }},
      {"ledger is no JSON", [](auto &m) { m.ledger = "{"; }},
      {"binding twice", [](auto &m) { m.bindings.push_back(m.bindings[0]); }},
      {"binding of zero", [](auto &m) { m.bindings[0].value = 0; }},
      {"arena twice", [](auto &m) { m.arenas[1].name = m.arenas[0].name; }},
      {"arena beyond all memory", [](auto &m) { m.arenas[0].bytes = ~uint64_t{0}; }},
      {"arenas that overflow together",
       [](auto &m) { m.arenas[0].bytes = m.arenas[1].bytes = uint64_t{1} << 48; }},
      {"arena class", [](auto &m) { m.arenas[0].lifetime = static_cast<ArenaClass>(9); }},
      {"tensor twice", [](auto &m) { m.tensors[1].name = m.tensors[0].name; }},
      {"tensor role", [](auto &m) { m.tensors[0].role = static_cast<TensorRole>(7); }},
      {"tensor's arena", [](auto &m) { m.tensors[0].place.arena = 5; }},
      {"negative arena", [](auto &m) { m.tensors[0].place.arena = -1; }},
      {"unaligned tensor", [](auto &m) { m.tensors[0].place.offset = 32; }},
      {"tensor beyond its arena", [](auto &m) { m.tensors[0].place.shape[0] += 100000; }},
      {"tensor offset that wraps", [](auto &m) { m.tensors[0].place.offset = ~uint64_t{0} - 63; }},
      {"shape that overflows", [](auto &m) { m.tensors[0].place.shape = {1ll << 40, 1ll << 40, 0}; }},
      {"negative size", [](auto &m) { m.tensors[0].place.shape[0] = -1; }},
      {"rank", [](auto &m) { m.tensors[0].place.shape.assign(9, 1); }},
      {"overlapping states", [](auto &m) { m.tensors[4].place.offset = m.tensors[0].place.offset; }},
      {"moment without parameter", [](auto &m) { m.tensors[1].parameter = "nothing"; }},
      {"moment of another shape", [](auto &m) { m.tensors[1].place.shape = {1}; }},
      {"checkpoint name twice", [](auto &m) { m.tensors[4].checkpointName = m.tensors[0].checkpointName; }},
      {"derived of nothing", [](auto &m) { m.derived[0].parameter = "nothing"; }},
      {"entry twice", [](auto &m) { m.entries[1].name = "init"; }},
      {"input twice", [](auto &m) { m.entries[1].inputs[1].name = "tokens"; }},
      {"output beyond its arena", [](auto &m) { m.entries[1].outputs[0].operand.shape = {1000000}; }},
      {"operand element type",
       [](auto &m) { m.entries[1].commands[0].inputs[0].type = static_cast<ElementType>(6); }},
      {"operand beyond its arena", [](auto &m) { m.entries[1].commands[0].outputs[0].offset = 64 << 20; }},
      {"dependency on itself", [](auto &m) { m.entries[1].commands[1].dependencies = {1}; }},
      {"dependency on a later command",
       [](auto &m) { m.entries[1].commands[1].dependencies = {4000000000}; }},
      {"too many dependencies", [](auto &m) { m.entries[1].commands[1].dependencies = {0, 0}; }},
      {"attribute twice",
       [](auto &m) {
         m.entries[1].commands[1].attributes[1].name = m.entries[1].commands[1].attributes[0].name;
       }},
      {"command without kind", [](auto &m) { m.entries[1].commands[1].kind.clear(); }},
      {"flops that are no number", [](auto &m) { m.entries[1].flops[0] = "many"; }},
      {"kernel without code", [](auto &m) { m.kernels[0].image.clear(); }},
      {"long name", [](auto &m) { m.model.assign(5000, 'x'); }},
  };
  ASSERT_TRUE(parseExecutable(serializeExecutable(model()), "model.slx").ok());
  for (const auto &[what, edit] : edits) {
    ExecutableDescription description = model();
    edit(description);
    expectRefused(parseExecutable(serializeExecutable(description), "model.slx"), what);
  }
}

TEST(Executable, LoadsFromAFile) {
  std::string path = ::testing::TempDir() + "/executable_test.slx";
  ASSERT_TRUE(writeFileAtomically(path, serializeExecutable(model())).ok());
  StatusOr<Executable> loaded = loadExecutable(path);
  ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
  EXPECT_EQ(loaded->sha256.size(), 64u);
}

TEST(Inspect, NamesThePartsAndFitsTheScreen) {
  ExecutableDescription description = model();
  description.tensors[0].checkpointName = std::string(300, 'n');
  description.ledger = R"({"flops":{"forward":{"ideal":"61551411200"}}})";
  StatusOr<Executable> loaded = parseExecutable(serializeExecutable(description), "model.slx");
  ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
  for (bool all : {false, true}) {
    std::string text = inspectExecutable(*loaded, {.allCommands = all});
    for (const char *part : {"tiny", "batch = 2, seq = 8", "parameters", "activations", "accumulate", "gemm",
                             "k1", "cuda:sm_90a", "61,551,411,200"})
      EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
    size_t start = 0;
    while (start < text.size()) {
      size_t end = text.find('\n', start);
      EXPECT_LE(end - start, 100u) << text.substr(start, end - start);
      start = end + 1;
    }
  }
}

} // namespace
} // namespace sluice
