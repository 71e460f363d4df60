// How texts are parted into documents.
#include "runtime/data/Documents.h"
#include "tests/runtime/data/TestData.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Parted {
  std::vector<std::string> documents;
  StatusOr<uint64_t> empty = 0;
};

Parted part(const std::string &text, const std::string &rule) {
  test::TemporaryFolder folder;
  auto inputs = TextInputs::open({folder.write("in.txt", text)});
  EXPECT_TRUE(inputs.ok()) << test::message(inputs.status());
  Parted parted;
  parted.empty = inputs->forEachDocument(*DocumentRule::parse(rule), [&](std::string_view document) {
    parted.documents.emplace_back(document);
    return absl::OkStatus();
  });
  return parted;
}

TEST(Documents, Paragraphs) {
  EXPECT_THAT(part("\n\na\nb\n \t\n\nc\r\n\r\nd", "paragraph").documents, ElementsAre("a\nb", "c", "d"));
  EXPECT_THAT(part("  a  \n", "paragraph").documents, ElementsAre("  a  "));
  EXPECT_THAT(part("", "paragraph").documents, ElementsAre());
}

TEST(Documents, Lines) {
  Parted parted = part("a\r\n\n  \nb\nc", "line");
  EXPECT_THAT(parted.documents, ElementsAre("a", "b", "c"));
  EXPECT_EQ(*parted.empty, 2u);
}

TEST(Documents, Files) {
  EXPECT_THAT(part("a\n\nb\n", "file").documents, ElementsAre("a\n\nb\n"));
  EXPECT_EQ(*part(" \n", "file").empty, 1u);
}

TEST(Documents, JsonLines) {
  Parted parted =
      part("{\"id\": 1, \"text\": \"a\\nb \\u00e9\"}\n\n{\"text\": \"\"}\n{\"text\": \"c\"}", "jsonl:text");
  EXPECT_THAT(parted.documents, ElementsAre("a\nb \xC3\xA9", "c"));
  EXPECT_EQ(*parted.empty, 1u);
  for (auto [line, finding] : {std::pair{"{\"body\": \"x\"}", "'text'"},
                               {"[1]", "object"},
                               {"{\"text\": 3}", "number"},
                               {"{\"text\": \"x", "JSON"},
                               {"{\"text\": \"\\ud800\"}", "JSON"}}) {
    Parted bad = part(std::string("{\"text\": \"fine\"}\n") + line + "\n", "jsonl:text");
    EXPECT_EQ(exitCode(bad.empty.status()), ExitCode::BadInput);
    EXPECT_THAT(test::message(bad.empty.status()), HasSubstr("in.txt:2: "));
    EXPECT_THAT(test::message(bad.empty.status()), HasSubstr(finding));
  }
}

TEST(Documents, RulesHaveNames) {
  for (const char *name : {"file", "paragraph", "line", "jsonl:text"})
    EXPECT_EQ(DocumentRule::parse(name)->name(), name);
  for (const char *name : {"", "words", "jsonl", "jsonl:"})
    EXPECT_EQ(exitCode(DocumentRule::parse(name).status()), ExitCode::Usage);
}

TEST(Documents, InvalidUtf8IsNamedWithFileAndOffset) {
  test::TemporaryFolder folder;
  auto inputs = TextInputs::open({folder.write("good.txt", "fine"), folder.write("bad.txt", "0123\xFFz")});
  EXPECT_EQ(exitCode(inputs.status()), ExitCode::BadInput);
  EXPECT_THAT(test::message(inputs.status()), HasSubstr("bad.txt"));
  EXPECT_THAT(test::message(inputs.status()), HasSubstr("byte offset 4;"));
  EXPECT_FALSE(TextInputs::open({folder / "missing.txt"}).ok());
  EXPECT_FALSE(TextInputs::open({folder.path}).ok());
}

} // namespace
} // namespace sluice
