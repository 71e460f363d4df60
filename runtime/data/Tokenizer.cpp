#include "runtime/data/Tokenizer.h"

#include "runtime/data/Utf8.h"
#include "runtime/support/File.h"
#include "runtime/support/Hash.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <unordered_set>

namespace sluice {
namespace {

// SentencePiece writes a space as this character (U+2581), so in a text it must be spelt as bytes.
constexpr std::string_view spaceMark = "\xE2\x96\x81";
// Longest training sentence; a longer line is cut at a space, which pieces do not cross anyway.
constexpr size_t sentenceBytes = 4096;

/// Characters that the library treats in a way of its own; they are always written as bytes.
bool isReserved(std::string_view character) {
  return character == spaceMark || character == "\xE2\x96\x85" /* U+2585, its unknown mark */ ||
         character == std::string_view("\0", 1) || character == "\t" /* its boundary mark */ ||
         character == "\xEF\xBF\xBD" /* U+FFFD */;
}

void forEachLine(std::string_view text, const std::function<void(std::string_view)> &body) {
  while (!text.empty()) {
    size_t end = text.find('\n');
    end = end == std::string_view::npos ? text.size() : end + 1;
    body(text.substr(0, end));
    text.remove_prefix(end);
  }
}

template <typename Body> void forEachCharacter(std::string_view text, Body body) {
  while (!text.empty()) {
    size_t length = static_cast<size_t>(std::max(1, utf8SequenceLength(text.substr(0, 4))));
    body(text.substr(0, length));
    text.remove_prefix(length);
  }
}

/// The `limit` most frequent characters; equal counts in code point order.
std::unordered_set<std::string>
frequentCharacters(const std::function<void(const Tokenizer::TextVisitor &)> &texts, size_t limit) {
  std::vector<uint64_t> ascii(128);
  std::map<std::string, uint64_t, std::less<>> others;
  texts([&](std::string_view text) {
    forEachCharacter(text, [&](std::string_view character) {
      if (character.size() == 1)
        ++ascii[static_cast<uint8_t>(character[0]) & 127];
      else if (auto found = others.find(character); found != others.end())
        ++found->second;
      else
        others.emplace(character, 1);
    });
  });
  std::vector<std::pair<uint64_t, std::string>> counted;
  for (size_t code = 0; code < 128; ++code)
    if (ascii[code] > 0)
      counted.emplace_back(ascii[code], std::string(1, static_cast<char>(code)));
  for (auto &[character, count] : others)
    counted.emplace_back(count, character);
  std::erase_if(counted, [](const auto &entry) { return isReserved(entry.second); });
  std::sort(counted.begin(), counted.end(), [](const auto &a, const auto &b) {
    return a.first != b.first ? a.first > b.first : a.second < b.second; // UTF-8 sorts by code point
  });
  std::unordered_set<std::string> kept;
  for (size_t i = 0; i < std::min(limit, counted.size()); ++i)
    kept.insert(counted[i].second);
  return kept;
}

/// The training sentences of a line: parted at characters that are written as bytes, and at sentenceBytes.
void appendSentences(std::string_view line, const std::unordered_set<std::string> &kept,
                     std::vector<std::string> &sentences) {
  std::string current;
  size_t lastSpace = 0; // bytes before the last space of `current`
  auto flush = [&](size_t keep) {
    std::string rest = current.substr(keep);
    current.resize(keep);
    if (!current.empty())
      sentences.push_back(std::move(current));
    current = std::move(rest);
    lastSpace = 0;
  };
  forEachCharacter(line, [&](std::string_view character) {
    if (!kept.contains(std::string(character)))
      return flush(current.size());
    if (current.size() + character.size() > sentenceBytes)
      flush(lastSpace > 0 ? lastSpace : current.size());
    if (character == " ")
      lastSpace = current.size();
    current += character;
  });
  flush(current.size());
}

std::string replaceAll(std::string_view text, std::string_view from, std::string_view to) {
  std::string result;
  for (;;) {
    size_t at = text.find(from);
    result += text.substr(0, at);
    if (at == std::string_view::npos)
      return result;
    result += to;
    text.remove_prefix(at + from.size());
  }
}

} // namespace

StatusOr<Tokenizer> Tokenizer::train(const std::function<void(const TextVisitor &)> &forEachText,
                                     int vocabulary) {
  if (vocabulary < minimumVocabulary)
    return usageError("tokenizer: a vocabulary of at least ", minimumVocabulary,
                      " is needed (256 bytes, the delimiter, characters), found ", vocabulary, "; try 4096");
  auto kept = frequentCharacters(forEachText, static_cast<size_t>(vocabulary - 258) / 2);
  if (kept.empty())
    return usageError("tokenizer: expected text to train on, found none; check the input files");
  std::vector<std::string> sentences;
  forEachText([&](std::string_view text) {
    forEachLine(text, [&](std::string_view line) { appendSentences(line, kept, sentences); });
  });
  size_t at = 0;
  std::string trained;
  std::string error = sentencepiece::train(
      [&](std::string &sentence) {
        if (at == sentences.size())
          return false;
        sentence = std::move(sentences[at++]);
        return true;
      },
      vocabulary, trained);
  if (size_t limit = error.find("<= ");
      error.find("too high") != std::string::npos && limit != std::string::npos)
    return usageError("tokenizer: a vocabulary of ", vocabulary,
                      " is more than the training text supports; it has ", "pieces for at most ",
                      std::atoll(error.c_str() + limit + 3), "; give more text or a smaller --vocab");
  if (!error.empty())
    return failure("tokenizer: SentencePiece cannot train a vocabulary of ", vocabulary, ": ", error);
  return fromBytes(std::move(trained), "the trained tokenizer");
}

StatusOr<Tokenizer> Tokenizer::fromBytes(std::string bytes, const std::string &name) {
  Tokenizer tokenizer;
  if (bytes.empty())
    return badInputError(name, ": expected a SentencePiece model, found an empty file");
  if (std::string error = tokenizer.model.load(bytes); !error.empty())
    return badInputError(name, ": expected a SentencePiece model, found: ", error);
  int size = tokenizer.model.size();
  tokenizer.delimiterId = tokenizer.model.endOfSentence();
  if (tokenizer.delimiterId < 0 || tokenizer.delimiterId >= size)
    return badInputError(name, ": expected an end-of-sentence piece (it separates documents), found none; ",
                         "train one with --vocab N");
  tokenizer.byteIds.fill(-1);
  for (int id = 0; id < size; ++id) {
    const std::string &piece = tokenizer.model.piece(id);
    std::string text;
    switch (tokenizer.model.kind(id)) {
    case sentencepiece::PieceKind::Text:
      text = replaceAll(piece, spaceMark, " ");
      break;
    case sentencepiece::PieceKind::Byte: { // "<0x0A>"
      long byte = piece.size() == 6 ? std::strtol(piece.c_str() + 1, nullptr, 16) : -1;
      if (byte < 0 || byte > 255)
        return badInputError(name, ": expected a byte piece like <0x0A>, found '", piece, "' at id ", id);
      text.assign(1, static_cast<char>(byte));
      tokenizer.byteIds[static_cast<size_t>(byte)] = id;
      break;
    }
    case sentencepiece::PieceKind::Control:
    case sentencepiece::PieceKind::Unknown:
      break;
    }
    tokenizer.tokenLengths.push_back(
        {static_cast<uint32_t>(text.size()), static_cast<uint32_t>(utf8Characters(text))});
    tokenizer.texts.push_back(std::move(text));
  }
  for (int32_t id : tokenizer.byteIds)
    if (id < 0)
      return badInputError(name, ": expected byte fallback (256 byte pieces), found a model without; ",
                           "train one with --vocab N");
  tokenizer.sha256 = sha256Hex(bytes);
  tokenizer.bytes = std::move(bytes);

  constexpr std::string_view probe =
      "  A\tb  c \n\n\xEF\xBC\xA1 \xC3\xA9 e\xCC\x81 \xE2\x96\x81\xF0\x9F\x99\x82\n ";
  SLUICE_ASSIGN_OR_RETURN(auto ids, tokenizer.encode(probe));
  SLUICE_ASSIGN_OR_RETURN(std::string back, tokenizer.decode(ids));
  if (back != probe)
    return badInputError(
        name, ": expected a tokenizer that keeps text byte for byte, found one that normalises it; ",
        "train one with --vocab N (identity rule, no dummy prefix, spaces kept)");
  return tokenizer;
}

StatusOr<Tokenizer> Tokenizer::load(const std::string &path) {
  SLUICE_ASSIGN_OR_RETURN(std::string bytes, readFile(path));
  return fromBytes(std::move(bytes), path);
}

Status Tokenizer::save(const std::string &path) const {
  return writeFileAtomically(path, bytes);
}

Status Tokenizer::encode(std::string_view text, std::vector<int32_t> &ids) const {
  std::string error;
  auto encodePart = [&](std::string_view part) {
    if (error.empty() && !part.empty())
      error = model.encode(part, ids);
  };
  forEachLine(text, [&](std::string_view line) {
    for (size_t at; (at = line.find(spaceMark)) != std::string_view::npos;) {
      encodePart(line.substr(0, at));
      for (char byte : spaceMark)
        ids.push_back(byteIds[static_cast<uint8_t>(byte)]);
      line.remove_prefix(at + spaceMark.size());
    }
    encodePart(line);
  });
  if (!error.empty())
    return failure("tokenizer: SentencePiece cannot encode a text of ", text.size(), " bytes: ", error);
  return absl::OkStatus();
}

StatusOr<std::vector<int32_t>> Tokenizer::encode(std::string_view text) const {
  std::vector<int32_t> ids;
  SLUICE_RETURN_IF_ERROR(encode(text, ids));
  return ids;
}

StatusOr<std::string> Tokenizer::decode(const int32_t *ids, size_t count) const {
  std::string text;
  for (size_t i = 0; i < count; ++i) {
    if (ids[i] < 0 || ids[i] >= vocabulary())
      return usageError("tokenizer: expected ids below ", vocabulary(), ", found ", ids[i], " at position ",
                        i);
    text += texts[static_cast<size_t>(ids[i])];
  }
  return text;
}

} // namespace sluice
