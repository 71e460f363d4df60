// The manifest's text: round trip, the self-checksum and what is refused.
#include "runtime/checkpoint/Manifest.h"
#include "TestFiles.h"
#include "runtime/support/Hash.h"

using namespace sluice;
using namespace sluice::test;

namespace {

Manifest example() {
  Manifest manifest;
  manifest.step = 12;
  manifest.files = {{"model.safetensors", 104, sha256Hex("a")},
                    {"state.json", uint64_t(5) << 30, sha256Hex("b")}};
  return manifest;
}

/// Replaces text and makes the checksum right again.
std::string edited(std::string text, const std::string &from, const std::string &to) {
  text.replace(text.find(from), from.size(), to);
  size_t checksum = text.find("\"checksum\": \"") + 13;
  text.replace(checksum, 64, std::string(64, '0'));
  return text.replace(checksum, 64, sha256Hex(text));
}

TEST(Manifest, RoundTrip) {
  std::string text = *example().text();
  StatusOr<Manifest> read = Manifest::parse(text, "manifest.json");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->step, 12u);
  ASSERT_EQ(read->files.size(), 2u);
  EXPECT_EQ(read->files[1].size, uint64_t(5) << 30);
  EXPECT_EQ(read->files[0].sha256, "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb");
  ASSERT_NE(read->find("state.json"), nullptr);
  EXPECT_EQ(read->find("other"), nullptr);
}

TEST(Manifest, EditsWithARightChecksumAreStillChecked) {
  std::string text = *example().text();
  const std::tuple<const char *, const char *, const char *> cases[] = {
      {"\"version\": 1", "\"version\": 2", "version 1"},
      {"sluice-checkpoint", "other", "other JSON"},
      {"\"step\": 12", "\"step\": -12", "types"},
      {"\"step\": 12", "\"step\": 12, \"extra\": 1", "other keys"},
      {"\"model.safetensors\"", "\"../model.safetensors\"", "plain name"},
      {"\"model.safetensors\"", "\"state.json\"", "twice"},
      {"\"size\": 104", "\"size\": 104.5", "size"},
      {"ca978112", "CA978112", "sha256"},
      {"\"step\": 12", "\"step\": 12, \"step\": 12", "twice"},
  };
  for (const auto &[from, to, expected] : cases) {
    Status status = Manifest::parse(edited(text, from, to), "manifest.json").status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << to;
    EXPECT_TRUE(mentions(status, expected)) << to << ": " << status;
  }
}

TEST(Manifest, TheChecksumCoversEverything) {
  std::string text = *example().text();
  EXPECT_TRUE(mentions(Manifest::parse(text + "\n", "m").status(), "checksum"));
  std::string other = text;
  other.replace(other.find("\"step\": 12"), 10, "\"step\": 13");
  EXPECT_TRUE(mentions(Manifest::parse(other, "m").status(), "checksum"));
}

} // namespace
