// Replays the fuzzers' seeds as a unit test. A seed's name says whether it is a good or a bad file.
#include "runtime/checkpoint/Safetensors.h"
#include "runtime/support/File.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <memory>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

using namespace sluice;

namespace {

/// Runs the target on an exact heap copy, so that a sanitizer sees the first byte that is read beyond the
/// input.
void replay(std::string_view bytes) {
  auto copy = std::make_unique<uint8_t[]>(bytes.size());
  std::memcpy(copy.get(), bytes.data(), bytes.size());
  LLVMFuzzerTestOneInput(copy.get(), bytes.size());
}

TEST(FuzzReplay, Safetensors) {
  size_t good = 0, bad = 0;
  for (const auto &entry :
       std::filesystem::directory_iterator(SLUICE_SOURCE_DIR "/tests/fuzz/corpus/safetensors")) {
    SCOPED_TRACE(entry.path().filename().string());
    StatusOr<std::string> bytes = readFile(entry.path().string());
    ASSERT_TRUE(bytes.ok()) << bytes.status();
    const bool isGood = entry.path().filename().string().rfind("good-", 0) == 0;
    (isGood ? good : bad) += 1;
    EXPECT_EQ(SafetensorsFile::parse(*bytes, "seed").ok(), isGood);
    replay(*bytes);
    // Each seed's neighbours: every cut, and every byte changed in a few ways.
    for (size_t i = 0; i < bytes->size(); ++i) {
      replay(std::string_view(*bytes).substr(0, i));
      for (unsigned char mask : {0x01, 0x10, 0x80, 0xff}) {
        std::string changed = *bytes;
        changed[i] = static_cast<char>(changed[i] ^ mask);
        replay(changed);
      }
    }
  }
  EXPECT_GE(good, 4u);
  EXPECT_GE(bad, 10u);
}

} // namespace
