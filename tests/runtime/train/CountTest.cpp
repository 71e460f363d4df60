// Numbers as people write them.
#include "runtime/train/Count.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(Count, Forms) {
  const std::pair<const char *, int64_t> good[] = {
      {"0", 0},        {"7", 7},           {"250_000", 250000},   {"1,000,000", 1000000}, {"1e6", 1000000},
      {"2.5e3", 2500}, {"2M", 2000000},    {"1.5B", 1500000000},  {"1.1M", 1100000},      {"30k", 30000},
      {"1e+3", 1000},  {"2G", 2000000000}, {"1T", 1000000000000}, {"0.5K", 500},
  };
  for (auto [text, value] : good) {
    StatusOr<int64_t> parsed = parseCount(text, "--tokens");
    ASSERT_TRUE(parsed.ok()) << text << ": " << parsed.status().ToString();
    EXPECT_EQ(*parsed, value) << text;
  }
  for (const char *text : {"",    "M",     "-1",   "1.5", "2X",  "1e",  "1__0", "_1",      "1_",  "nan",
                           "inf", "1e400", "0x10", " 1",  "1 M", "2MB", "1e16", "1.2345K", ".5M", "1..2"}) {
    Status status = parseCount(text, "--tokens").status();
    EXPECT_EQ(exitCode(status), ExitCode::Usage) << "'" << text << "'";
    EXPECT_EQ(status.message().find("--tokens"), 0u);
  }
}

TEST(Count, NearestName) {
  EXPECT_EQ(nearestName("warmpu", {"kind", "warmup", "floor"}), "warmup");
  EXPECT_EQ(nearestName("zzzzzz", {"kind", "warmup"}), "");
}

} // namespace
} // namespace sluice
