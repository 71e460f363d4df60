// What the data tests share: seeded text, a folder that cleans up after itself, a small packed dataset.
#pragma once

#include "runtime/data/Pack.h"
#include "runtime/support/Philox.h"

#include <filesystem>
#include <gtest/gtest.h>
#include <string>
#include <unistd.h>
#include <vector>

namespace sluice::test {

/// `paragraphs` paragraphs of seeded sentences, parted by blank lines; mostly ASCII, some accents.
inline std::string seededText(uint64_t seed, int paragraphs) {
  static const char *words[] = {"river", "stone",  "the",          "a",    "old",    "caf\xC3\xA9",
                                "mill",  "turned", "slowly",       "and",  "water",  "fell",
                                "under", "light",  "na\xC3\xAFve", "gate", "opened", "wide"};
  PhiloxStream random(seed, streamKey("test/text"));
  uint64_t draw = 0;
  std::string text;
  for (int paragraph = 0; paragraph < paragraphs; ++paragraph) {
    for (uint64_t lines = 1 + random.below(3, draw++); lines > 0; --lines) {
      text += "Paragraph " + std::to_string(paragraph) + ":";
      for (uint64_t count = 3 + random.below(9, draw++); count > 0; --count)
        text += std::string(" ") + words[random.below(std::size(words), draw++)];
      text += ".\n";
    }
    text += "\n";
  }
  return text;
}

/// A fresh folder for one test, removed at its end.
class TemporaryFolder {
public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "sluice-data-XXXXXX").string();
    path = ::mkdtemp(pattern.data());
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  std::string operator/(const std::string &name) const { return path + "/" + name; }
  std::string write(const std::string &name, std::string_view bytes) const {
    EXPECT_TRUE(writeFile(*this / name, bytes).ok());
    return *this / name;
  }
  std::string path;
};

inline std::string message(const Status &status) {
  return std::string(status.message());
}

/// For EXPECT_HAS: a failure prints both texts.
inline bool contains(const std::string &text, const std::string &part) {
  return text.find(part) != std::string::npos;
}

/// Options that pack `text` into `folder`/data.
inline PackOptions packOptions(const TemporaryFolder &folder, const std::string &text, int vocabulary = 320) {
  PackOptions options;
  options.inputs = {folder.write("text.txt", text)};
  options.vocabulary = vocabulary;
  options.validationFraction = 0.2;
  options.output = folder / "data";
  return options;
}

} // namespace sluice::test

#define EXPECT_HAS(text, part) EXPECT_PRED2(::sluice::test::contains, text, part)

#define ASSERT_OK(expression)                                                                                \
  do {                                                                                                       \
    const ::absl::Status &okStatus = (expression);                                                           \
    ASSERT_TRUE(okStatus.ok()) << std::string(okStatus.message());                                           \
  } while (false)
