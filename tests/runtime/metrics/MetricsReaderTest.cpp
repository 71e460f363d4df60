// The reader's tolerance: one torn line at the end, nothing else.
#include "runtime/metrics/MetricsReader.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace sluice;

namespace {

const std::string header = R"({"schema":"sluice-metrics-1","run_id":"r"})"
                           "\n";

TEST(MetricsReader, ReadsEveryCutOfAFile) {
  const std::string whole = header + "{\"step\":1}\n{\"step\":2}\n";
  for (size_t size = header.size(); size <= whole.size(); ++size) {
    StatusOr<MetricsFile> file = parseMetrics(std::string_view(whole).substr(0, size), "m");
    ASSERT_TRUE(file.ok()) << size << file.status();
    EXPECT_EQ(file->runId, "r");
    EXPECT_EQ(file->wholeBytes + file->torn.size(), size);
    EXPECT_EQ(file->records.size(), size == whole.size() ? 2u : size >= header.size() + 11 ? 1u : 0u) << size;
  }
  for (size_t size = 0; size < header.size(); ++size)
    EXPECT_EQ(exitCode(parseMetrics(std::string_view(whole).substr(0, size), "m").status()),
              ExitCode::BadInput);
}

TEST(MetricsReader, ALastLineOfZerosIsTorn) {
  StatusOr<MetricsFile> file = parseMetrics(header + "{\"step\":1}\n" + std::string(20, '\0') + "\n", "m");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->records.size(), 1u);
  EXPECT_EQ(file->torn.size(), 21u);
}

TEST(MetricsReader, DamageInTheMiddleIsNamed) {
  for (const char *line : {"{\"step\":", "[]", "{\"a\":1,\"a\":2}", ""}) {
    Status status = parseMetrics(header + line + "\n{\"step\":2}\n", "metrics.jsonl").status();
    EXPECT_EQ(exitCode(status), ExitCode::BadInput) << line;
    EXPECT_NE(status.message().find("metrics.jsonl:2"), absl::string_view::npos) << status;
  }
  EXPECT_FALSE(parseMetrics("{\"schema\":\"other\",\"run_id\":\"r\"}\n", "m").ok());
  EXPECT_FALSE(parseMetrics("{\"schema\":\"sluice-metrics-1\"}\n", "m").ok());
}

TEST(MetricsReader, NumbersComeBackAsMeasured) {
  StatusOr<MetricsFile> file = parseMetrics(
      header +
          R"({"loss":null,"norm":null,"down":null,"gone":null,"lr":0.5,"not_finite":{"/loss":"nan","/norm":"inf","/down":"-inf"}})"
          "\n",
      "m");
  ASSERT_TRUE(file.ok()) << file.status();
  const nlohmann::json &record = file->records[0];
  EXPECT_TRUE(std::isnan(*metricOf(record, "loss")));
  EXPECT_EQ(metricOf(record, "norm"), INFINITY);
  EXPECT_EQ(metricOf(record, "down"), -INFINITY);
  EXPECT_EQ(metricOf(record, "lr"), 0.5);
  EXPECT_EQ(metricOf(record, "gone"), std::nullopt);
  EXPECT_EQ(metricOf(record, "absent"), std::nullopt);
}

} // namespace
