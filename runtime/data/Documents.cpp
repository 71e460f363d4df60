#include "runtime/data/Documents.h"

#include "runtime/data/Utf8.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

namespace sluice {
namespace {

bool isBlank(std::string_view text) {
  return text.find_first_not_of(" \t\r\n\v\f") == std::string_view::npos;
}

/// Takes the first line off `text`, with its newline.
std::string_view takeLine(std::string_view &text) {
  size_t end = text.find('\n');
  std::string_view line = text.substr(0, end == std::string_view::npos ? text.size() : end + 1);
  text.remove_prefix(line.size());
  return line;
}

std::string_view withoutNewline(std::string_view line) {
  if (line.ends_with('\n'))
    line.remove_suffix(1);
  if (line.ends_with('\r'))
    line.remove_suffix(1);
  return line;
}

Status forEachParagraph(std::string_view text, const std::function<Status(std::string_view)> &visit) {
  const char *begin = nullptr, *end = nullptr; // of the paragraph being collected
  auto finish = [&]() -> Status {
    std::string_view paragraph(begin, static_cast<size_t>(end - begin));
    begin = end = nullptr;
    return paragraph.empty() ? absl::OkStatus() : visit(paragraph);
  };
  while (!text.empty()) {
    std::string_view line = takeLine(text);
    if (isBlank(line)) {
      SLUICE_RETURN_IF_ERROR(finish());
      continue;
    }
    line = withoutNewline(line);
    begin = begin ? begin : line.data();
    end = line.data() + line.size();
  }
  return finish();
}

/// The text under `key` of a JSON line.
StatusOr<std::string> jsonText(std::string_view line, const std::string &key, const std::string &place) {
  try {
    nlohmann::json json = nlohmann::json::parse(line);
    if (!json.is_object())
      return badInputError(place, ": expected a JSON object, found ", json.type_name());
    auto found = json.find(key);
    if (found == json.end())
      return badInputError(place, ": expected the key '", key,
                           "' (--documents jsonl:KEY), found none of that name");
    if (!found->is_string())
      return badInputError(place, ": expected text under '", key, "', found ", found->type_name());
    return found->get<std::string>();
  } catch (const nlohmann::json::exception &error) {
    return badInputError(place, ": expected JSON, found: ", error.what());
  }
}

} // namespace

StatusOr<DocumentRule> DocumentRule::parse(std::string_view text) {
  if (text == "file")
    return DocumentRule{Kind::File, {}};
  if (text == "paragraph")
    return DocumentRule{Kind::Paragraph, {}};
  if (text == "line")
    return DocumentRule{Kind::Line, {}};
  if (text.starts_with("jsonl:") && text.size() > 6)
    return DocumentRule{Kind::JsonLines, std::string(text.substr(6))};
  return usageError("--documents: expected file, paragraph, line or jsonl:KEY, found '", text, "'");
}

std::string DocumentRule::name() const {
  switch (kind) {
  case Kind::File:
    return "file";
  case Kind::Paragraph:
    return "paragraph";
  case Kind::Line:
    return "line";
  case Kind::JsonLines:
    break;
  }
  return "jsonl:" + key;
}

StatusOr<TextInputs> TextInputs::open(const std::vector<std::string> &paths) {
  if (paths.empty())
    return usageError("data pack: expected text files (or - for standard input), found none");
  TextInputs result;
  for (const std::string &path : paths) {
    Input input;
    input.name = path == "-" ? "standard input" : path;
    std::error_code ignored;
    if (path != "-" && std::filesystem::is_regular_file(path, ignored)) {
      SLUICE_ASSIGN_OR_RETURN(input.file, MappedFile::open(path));
    } else { // a pipe cannot be mapped; a missing file gets its error here
      SLUICE_ASSIGN_OR_RETURN(input.text, readFile(path == "-" ? "/dev/stdin" : path));
    }
    if (size_t at = utf8FirstError(input.view()); at < input.view().size())
      return badInputError("'", input.name,
                           "': expected UTF-8 text, found an invalid sequence at byte offset ", at,
                           "; convert the file first (for example with iconv -t UTF-8)");
    result.inputs.push_back(std::move(input));
  }
  return result;
}

uint64_t TextInputs::bytes() const {
  uint64_t sum = 0;
  for (const Input &input : inputs)
    sum += input.view().size();
  return sum;
}

StatusOr<uint64_t> TextInputs::forEachDocument(const DocumentRule &rule,
                                               const std::function<Status(std::string_view)> &visit) const {
  uint64_t empty = 0;
  auto offer = [&](std::string_view document) -> Status {
    if (!isBlank(document))
      return visit(document);
    ++empty;
    return absl::OkStatus();
  };
  for (const Input &input : inputs) {
    std::string_view text = input.view();
    switch (rule.kind) {
    case DocumentRule::Kind::File:
      SLUICE_RETURN_IF_ERROR(offer(text));
      break;
    case DocumentRule::Kind::Paragraph:
      SLUICE_RETURN_IF_ERROR(forEachParagraph(text, visit));
      break;
    case DocumentRule::Kind::Line:
      while (!text.empty())
        SLUICE_RETURN_IF_ERROR(offer(withoutNewline(takeLine(text))));
      break;
    case DocumentRule::Kind::JsonLines:
      for (uint64_t number = 1; !text.empty(); ++number) {
        std::string_view line = takeLine(text);
        if (isBlank(line))
          continue;
        SLUICE_ASSIGN_OR_RETURN(std::string document,
                                jsonText(line, rule.key, concat(input.name, ":", number)));
        SLUICE_RETURN_IF_ERROR(offer(document));
      }
      break;
    }
  }
  return empty;
}

} // namespace sluice
