// The JSON lines that a run leaves: header, non-finite numbers, resume with the tail set aside, disk errors.
#include "runtime/metrics/MetricsWriter.h"
#include "runtime/metrics/MetricsReader.h"
#include "runtime/support/File.h"

#include <gtest/gtest.h>

#include <cmath>
#include <csignal>
#include <filesystem>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace sluice;
namespace fs = std::filesystem;

namespace {

class MetricsWriterTest : public testing::Test {
protected:
  MetricsWriterTest() {
    std::string pattern = (fs::temp_directory_path() / "sluice-metrics-XXXXXX").string();
    folder = ::mkdtemp(pattern.data());
    path = folder + "/metrics.jsonl";
  }
  ~MetricsWriterTest() override { fs::remove_all(folder); }
  std::string text(const std::string &file) { return readFile(file).value_or("(missing)"); }
  MetricsWriter start(const std::string &runId = "run-1") {
    return MetricsWriter::create(path, runId).value();
  }
  void writeStep(MetricsWriter &writer, int step) {
    Status status = writer.write({{"step", step}, {"loss", 4.0 / step}});
    ASSERT_TRUE(status.ok()) << status;
  }
  std::string folder, path;
};

const std::string header = R"({"schema":"sluice-metrics-1","run_id":"run-1"})"
                           "\n";

TEST_F(MetricsWriterTest, OneObjectALineInTheOrderGiven) {
  MetricsWriter writer = start();
  ASSERT_TRUE(writer.write({{"step", 1}, {"loss", 0.1}, {"balance", 1.5}, {"text", "a\nb"}}).ok());
  ASSERT_TRUE(writer.sync().ok());
  const std::string expected = header + R"({"step":1,"loss":0.1,"balance":1.5,"text":"a\nb"})"
                                        "\n";
  EXPECT_EQ(text(path), expected);
  EXPECT_EQ(writer.offset(), expected.size());
}

TEST_F(MetricsWriterTest, NotFiniteNumbersAreNullAndNamed) {
  MetricsWriter writer = start();
  ASSERT_TRUE(
      writer.write({{"loss", NAN}, {"norm", INFINITY}, {"layers", {{{"a/b", -INFINITY}}, {{"a/b", 1.0}}}}})
          .ok());
  EXPECT_EQ(text(path), header + R"({"loss":null,"norm":null,"layers":[{"a/b":null},{"a/b":1.0}],)"
                                 R"("not_finite":{"/loss":"nan","/norm":"inf","/layers/0/a~1b":"-inf"}})"
                                 "\n");
}

TEST_F(MetricsWriterTest, RefusesWhatIsNoRecord) {
  MetricsWriter writer = start();
  EXPECT_FALSE(writer.write(nlohmann::ordered_json::array()).ok());
  EXPECT_FALSE(writer.write({{"not_finite", 1}}).ok());
  EXPECT_FALSE(writer.write({{"text", "\xff"}}).ok());
  EXPECT_EQ(text(path), header);
}

TEST_F(MetricsWriterTest, ANewRunDoesNotOverwrite) {
  start();
  EXPECT_EQ(exitCode(MetricsWriter::create(path, "run-2").status()), ExitCode::Usage);
}

TEST_F(MetricsWriterTest, ResumeSetsTheTailAside) {
  uint64_t offset;
  {
    MetricsWriter writer = start();
    writeStep(writer, 1);
    offset = writer.offset();
    writeStep(writer, 2);
  }
  const std::string whole = text(path) + "{\"step\":3,\"lo"; // and a torn line
  ASSERT_TRUE(writeFile(path, whole).ok());
  StatusOr<MetricsWriter> writer = MetricsWriter::resume(path, "run-1", offset, 1);
  ASSERT_TRUE(writer.ok()) << writer.status();
  EXPECT_EQ(text(path), whole.substr(0, offset));
  EXPECT_EQ(text(folder + "/metrics.tail-1.jsonl"), whole.substr(offset));
  writeStep(*writer, 2);
  EXPECT_EQ(text(path) + "{\"step\":3,\"lo", whole);
  EXPECT_EQ(writer->offset(), text(path).size());

  // A second return to the same step keeps both tails.
  StatusOr<MetricsWriter> again = MetricsWriter::resume(path, "run-1", offset, 1);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(text(folder + "/metrics.tail-1.jsonl"), whole.substr(offset));
  EXPECT_EQ(text(folder + "/metrics.tail-1.2.jsonl") + "{\"step\":3,\"lo", whole.substr(offset));
}

TEST_F(MetricsWriterTest, ResumeWithoutATailLeavesNoFile) {
  uint64_t offset;
  {
    MetricsWriter writer = start();
    writeStep(writer, 1);
    offset = writer.offset();
  }
  ASSERT_TRUE(MetricsWriter::resume(path, "run-1", offset, 1).ok());
  EXPECT_FALSE(fs::exists(folder + "/metrics.tail-1.jsonl"));
}

TEST_F(MetricsWriterTest, ResumeFromTheStartWritesANewHeader) {
  {
    MetricsWriter writer = start("run-0");
    writeStep(writer, 1);
  }
  StatusOr<MetricsWriter> writer = MetricsWriter::resume(path, "run-1", 0, 0);
  ASSERT_TRUE(writer.ok()) << writer.status();
  EXPECT_EQ(text(path), header);
  EXPECT_TRUE(fs::exists(folder + "/metrics.tail-0.jsonl"));
}

TEST_F(MetricsWriterTest, ResumeRefusesAnotherFile) {
  uint64_t offset;
  {
    MetricsWriter writer = start();
    writeStep(writer, 1);
    offset = writer.offset();
  }
  const std::string before = text(path);
  EXPECT_EQ(exitCode(MetricsWriter::resume(path, "run-2", offset, 1).status()), ExitCode::BadInput);
  EXPECT_EQ(exitCode(MetricsWriter::resume(path, "run-1", offset + 1, 1).status()), ExitCode::BadInput);
  EXPECT_EQ(exitCode(MetricsWriter::resume(path, "run-1", offset - 1, 1).status()), ExitCode::BadInput);
  EXPECT_FALSE(MetricsWriter::resume(folder + "/none.jsonl", "run-1", offset, 1).ok());
  EXPECT_EQ(text(path), before);
}

TEST_F(MetricsWriterTest, ADiskThatTakesAPartLeavesNoTornLine) {
  // A child whose files may not grow beyond a limit stands for a full disk: its write is cut short.
  pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    MetricsWriter writer = MetricsWriter::create(path, "run-1").value();
    rlimit limit{writer.offset() + 10, RLIM_INFINITY};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const bool failed = !writer.write({{"step", 1}, {"loss", 0.25}}).ok();
    limit.rlim_cur = RLIM_INFINITY;
    ::setrlimit(RLIMIT_FSIZE, &limit);
    ::_exit(failed && writer.write({{"step", 2}}).ok() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(text(path), header + "{\"step\":2}\n");
}

} // namespace
