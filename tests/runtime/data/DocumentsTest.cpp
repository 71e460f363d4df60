// How texts are parted into documents.
#include "runtime/data/Documents.h"
#include "tests/runtime/data/TestData.h"

namespace sluice {
namespace {

using Documents = std::vector<std::string>;

struct Parted {
  Documents documents;
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

TEST(DocumentRules, Paragraphs) {
  EXPECT_EQ(part("\n\na\nb\n \t\n\nc\r\n\r\nd", "paragraph").documents, (Documents{"a\nb", "c", "d"}));
  EXPECT_EQ(part("  a  \n", "paragraph").documents, (Documents{"  a  "}));
  EXPECT_EQ(part("", "paragraph").documents, (Documents{}));
}

TEST(DocumentRules, Lines) {
  Parted parted = part("a\r\n\n  \nb\nc", "line");
  EXPECT_EQ(parted.documents, (Documents{"a", "b", "c"}));
  EXPECT_EQ(*parted.empty, 2u);
}

TEST(DocumentRules, Files) {
  EXPECT_EQ(part("a\n\nb\n", "file").documents, (Documents{"a\n\nb\n"}));
  EXPECT_EQ(*part(" \n", "file").empty, 1u);
}

TEST(DocumentRules, JsonLines) {
  Parted parted =
      part("{\"id\": 1, \"text\": \"a\\nb \\u00e9\"}\n\n{\"text\": \"\"}\n{\"text\": \"c\"}", "jsonl:text");
  EXPECT_EQ(parted.documents, (Documents{"a\nb \xC3\xA9", "c"}));
  EXPECT_EQ(*parted.empty, 1u);
  for (auto [line, finding] : {std::pair{"{\"body\": \"x\"}", "'text'"},
                               {"[1]", "object"},
                               {"{\"text\": 3}", "number"},
                               {"{\"text\": \"x", "JSON"},
                               {"{\"text\": \"\\ud800\"}", "JSON"}}) {
    Parted bad = part(std::string("{\"text\": \"fine\"}\n") + line + "\n", "jsonl:text");
    EXPECT_EQ(exitCode(bad.empty.status()), ExitCode::BadInput);
    EXPECT_HAS(test::message(bad.empty.status()), "in.txt:2: ");
    EXPECT_HAS(test::message(bad.empty.status()), finding);
  }
}

TEST(DocumentRules, RulesHaveNames) {
  for (const char *name : {"file", "paragraph", "line", "jsonl:text"})
    EXPECT_EQ(DocumentRule::parse(name)->name(), name);
  for (const char *name : {"", "words", "jsonl", "jsonl:"})
    EXPECT_EQ(exitCode(DocumentRule::parse(name).status()), ExitCode::Usage);
}

TEST(DocumentRules, InvalidUtf8IsNamedWithFileAndOffset) {
  test::TemporaryFolder folder;
  auto inputs = TextInputs::open({folder.write("good.txt", "fine"), folder.write("bad.txt", "0123\xFFz")});
  EXPECT_EQ(exitCode(inputs.status()), ExitCode::BadInput);
  EXPECT_HAS(test::message(inputs.status()), "bad.txt");
  EXPECT_HAS(test::message(inputs.status()), "byte offset 4;");
  EXPECT_FALSE(TextInputs::open({folder / "missing.txt"}).ok());
  EXPECT_FALSE(TextInputs::open({folder.path}).ok());
}

} // namespace
} // namespace sluice
