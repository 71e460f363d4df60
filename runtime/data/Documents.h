// Input texts and how they are parted into documents.
#pragma once

#include "runtime/support/File.h"
#include "runtime/support/Status.h"

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

/// What makes one document of a text.
struct DocumentRule {
  enum class Kind {
    File,      // the whole file
    Paragraph, // lines between blank lines, without the last newline
    Line,      // a line, without its "\n" or "\r\n"
    JsonLines, // every line is a JSON object; the document is its text under `key`
  };
  Kind kind = Kind::Paragraph;
  std::string key;

  /// From "file", "paragraph", "line" or "jsonl:KEY"; anything else is a usage error.
  static StatusOr<DocumentRule> parse(std::string_view text);
  /// The text that parse() reads.
  std::string name() const;
};

/// The inputs of a pack, opened and checked to be UTF-8. Files are mapped; pipes are read into memory.
class TextInputs {
public:
  /// Opens `paths` in order; "-" is standard input. Errors: no path (usage), not found, bad input with the
  /// file and the byte offset of the first invalid UTF-8.
  static StatusOr<TextInputs> open(const std::vector<std::string> &paths);

  uint64_t bytes() const;
  /// Calls `visit` for each document in order, and returns how many were left out because they hold nothing
  /// but whitespace (blank lines between paragraphs are not documents). A view is valid during its call only.
  /// An error of `visit` ends the walk and is returned. JSON lines that do not fit are bad input with
  /// file:line.
  StatusOr<uint64_t> forEachDocument(const DocumentRule &rule,
                                     const std::function<Status(std::string_view)> &visit) const;

private:
  struct Input {
    std::string name;
    MappedFile file;
    std::string text; // of a pipe
    std::string_view view() const { return text.empty() ? file.view() : std::string_view(text); }
  };
  std::vector<Input> inputs;
};

} // namespace sluice
