// The tokenizer keeps every byte of valid UTF-8, has the vocabulary asked for, and says clearly what it
// refuses.
#include "runtime/data/Tokenizer.h"
#include "runtime/data/Utf8.h"
#include "runtime/support/Hash.h"
#include "tests/runtime/data/TestData.h"

#include <numeric>

namespace sluice {
namespace {

StatusOr<Tokenizer> trainOn(const std::string &text, int vocabulary) {
  return Tokenizer::train([&](const Tokenizer::TextVisitor &visit) { visit(text); }, vocabulary);
}

const Tokenizer &trained() {
  static const Tokenizer tokenizer = trainOn(test::seededText(1, 60), 384).value();
  return tokenizer;
}

void encodeCodePoint(uint32_t code, std::string &out) {
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += {static_cast<char>(0xC0 | code >> 6), static_cast<char>(0x80 | (code & 63))};
  } else if (code < 0x10000) {
    out += {static_cast<char>(0xE0 | code >> 12), static_cast<char>(0x80 | (code >> 6 & 63)),
            static_cast<char>(0x80 | (code & 63))};
  } else {
    out += {static_cast<char>(0xF0 | code >> 18), static_cast<char>(0x80 | (code >> 12 & 63)),
            static_cast<char>(0x80 | (code >> 6 & 63)), static_cast<char>(0x80 | (code & 63))};
  }
}

void expectRoundTrip(const Tokenizer &tokenizer, const std::string &text) {
  auto ids = tokenizer.encode(text);
  ASSERT_OK(ids.status());
  auto back = tokenizer.decode(*ids);
  ASSERT_OK(back.status());
  ASSERT_EQ(*back, text);
  uint64_t bytes = 0, characters = 0;
  for (int32_t id : *ids) {
    bytes += tokenizer.lengths()[static_cast<size_t>(id)].bytes;
    characters += tokenizer.lengths()[static_cast<size_t>(id)].characters;
    EXPECT_NE(id, tokenizer.delimiter());
  }
  EXPECT_EQ(bytes, text.size());
  EXPECT_EQ(characters, utf8Characters(text));
}

TEST(Tokenizer, KeepsAwkwardTextsByteForByte) {
  for (const std::string &text :
       std::vector<std::string>{"",
                                " ",
                                "   ",
                                "\n",
                                "\n\n\n",
                                "\r\n",
                                "\t",
                                "a",
                                " a",
                                "a ",
                                "  a  b   c    ",
                                "line\n\n  indented\n\tTab\r\n",
                                std::string("nul\0inside", 10),
                                "<s></s><unk><pad><0x0A>",
                                "\xE2\x96\x81",
                                "a\xE2\x96\x81 \xE2\x96\x81\xE2\x96\x81z",
                                "\xE2\x96\x85 \xE2\x81\x87 \xEF\xBF\xBD \xEF\xBB\xBF",
                                "\xEF\xBC\xA1\xEF\xBC\x91 \xC2\xA0\xE3\x80\x80\xE2\x80\xA8",
                                "e\xCC\x81 \xC3\xA9 \xEF\xAC\x81",
                                "\xF0\x9F\x99\x82\xF4\x8F\xBF\xBF",
                                std::string(5000, ' '),
                                std::string(5000, 'a') + std::string(100, '\n')})
    expectRoundTrip(trained(), text);
}

TEST(Tokenizer, KeepsEveryCodePoint) {
  std::string text;
  for (uint32_t code = 0; code <= 0x10FFFF; code += code < 0x3000 ? 1 : 97)
    if (code < 0xD800 || code > 0xDFFF)
      encodeCodePoint(code, text);
  ASSERT_EQ(utf8FirstError(text), text.size());
  expectRoundTrip(trained(), text);
}

TEST(Tokenizer, KeepsRandomTexts) {
  PhiloxStream random(3, streamKey("test/unicode"));
  uint64_t draw = 0;
  for (int round = 0; round < 200; ++round) {
    std::string text;
    for (uint64_t count = random.below(60, draw++); count > 0; --count) {
      static constexpr uint32_t ranges[] = {0x21, 0x80, 0x800, 0xD800, 0x110000};
      uint32_t range = ranges[random.below(5, draw++)];
      uint32_t code = static_cast<uint32_t>(random.below(range, draw++));
      encodeCodePoint(code >= 0xD800 && code < 0xE000 ? ' ' : code, text);
    }
    expectRoundTrip(trained(), text);
  }
}

TEST(Tokenizer, HasExactlyTheVocabularyAskedFor) {
  for (int vocabulary : {Tokenizer::minimumVocabulary, 300, 511}) {
    auto tokenizer = trainOn(test::seededText(1, 60), vocabulary);
    ASSERT_OK(tokenizer.status());
    EXPECT_EQ(tokenizer->vocabulary(), vocabulary);
    expectRoundTrip(*tokenizer, test::seededText(9, 5));
  }
}

TEST(Tokenizer, ManyCharactersFitASmallVocabulary) {
  std::string text; // 3,000 different characters, far more than pieces
  for (uint32_t code = 0x4E00; code < 0x4E00 + 3000; ++code) {
    encodeCodePoint(code, text);
    text += code % 10 == 0 ? "\n" : "";
  }
  auto tokenizer = trainOn(text + test::seededText(1, 60), 400);
  ASSERT_OK(tokenizer.status());
  EXPECT_EQ(tokenizer->vocabulary(), 400);
  expectRoundTrip(*tokenizer, text);
}

TEST(Tokenizer, SameTextGivesTheSameModel) {
  auto again = trainOn(test::seededText(1, 60), 384);
  ASSERT_OK(again.status());
  EXPECT_EQ(again->hash(), trained().hash());
  EXPECT_EQ(again->hash(), sha256Hex(again->modelBytes()));
}

TEST(Tokenizer, LinesAreEncodedIndependently) {
  std::string a = test::seededText(5, 3), b = test::seededText(6, 3);
  auto joined = trained().encode(a + b), first = trained().encode(a), second = trained().encode(b);
  first->insert(first->end(), second->begin(), second->end());
  EXPECT_EQ(*joined, *first);
}

TEST(Tokenizer, LearnsPieces) {
  std::string text = test::seededText(7, 20);
  EXPECT_LT(trained().encode(text)->size() * 2, text.size());
}

TEST(Tokenizer, SavesAndLoads) {
  test::TemporaryFolder folder;
  ASSERT_OK(trained().save(folder / "tokenizer.model"));
  auto loaded = Tokenizer::load(folder / "tokenizer.model");
  ASSERT_OK(loaded.status());
  EXPECT_EQ(loaded->hash(), trained().hash());
  EXPECT_EQ(loaded->delimiter(), trained().delimiter());
  EXPECT_EQ(*loaded->encode("the old mill\n"), *trained().encode("the old mill\n"));
}

TEST(Tokenizer, RefusesWhatItCannotTrain) {
  auto tooSmall = trainOn(test::seededText(1, 60), Tokenizer::minimumVocabulary - 1);
  EXPECT_EQ(exitCode(tooSmall.status()), ExitCode::Usage);
  auto tooLarge = trainOn("a few words only, a few\n", 4096);
  EXPECT_EQ(exitCode(tooLarge.status()), ExitCode::Usage);
  EXPECT_HAS(test::message(tooLarge.status()), "at most");
  auto nothing = trainOn("", 4096);
  EXPECT_EQ(exitCode(nothing.status()), ExitCode::Usage);
}

TEST(Tokenizer, RefusesForeignFiles) {
  for (const std::string &bytes : std::vector<std::string>{
           "", "{\"version\": \"1.0\"}", std::string(100, '\0'), trained().modelBytes().substr(0, 1000)}) {
    auto tokenizer = Tokenizer::fromBytes(bytes, "x.model");
    ASSERT_FALSE(tokenizer.ok());
    EXPECT_EQ(exitCode(tokenizer.status()), ExitCode::BadInput);
    EXPECT_HAS(test::message(tokenizer.status()), "x.model");
  }
}

TEST(Tokenizer, RefusesIdsOutsideTheVocabulary) {
  EXPECT_EQ(exitCode(trained().decode({384}).status()), ExitCode::Usage);
  EXPECT_EQ(exitCode(trained().decode({-1}).status()), ExitCode::Usage);
  EXPECT_EQ(*trained().decode({trained().delimiter()}), "");
}

TEST(Utf8, ReadableTextHasNoIllFormedByte) {
  EXPECT_EQ(utf8Readable(""), "");
  EXPECT_EQ(utf8Readable("caf\xC3\xA9"), "caf\xC3\xA9");
  EXPECT_EQ(utf8Readable("caf\xC3"), "caf\xEF\xBF\xBD"); // cut within a character
  EXPECT_EQ(utf8Readable("\xB7 a\xFF\xFE"), "\xEF\xBF\xBD a\xEF\xBF\xBD\xEF\xBF\xBD");
  std::string every(256, ' ');
  for (int byte = 0; byte < 256; ++byte)
    every[static_cast<size_t>(byte)] = static_cast<char>(byte);
  EXPECT_EQ(utf8FirstError(utf8Readable(every)), utf8Readable(every).size());
}

TEST(Utf8, FindsTheFirstError) {
  EXPECT_EQ(utf8FirstError("abc"), 3u);
  // Overlong, surrogate, too large, lone continuation, cut short.
  for (const char *bad : {"\xC0\x80", "\xE0\x80\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\x80", "\xC3",
                          "\xF0\x9F\x99", "\xFF", "\xE2\x96X"})
    EXPECT_EQ(utf8FirstError(std::string("ok\n") + bad), 3u) << bad;
}

} // namespace
} // namespace sluice
