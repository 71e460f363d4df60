#include "runtime/data/Shard.h"

#include "runtime/support/Hash.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace sluice {
namespace {

static_assert(std::endian::native == std::endian::little, "shards are little-endian and mapped as they are");

constexpr char magic[8] = {'S', 'L', 'U', 'S', 'H', 'A', 'R', 'D'};
constexpr uint32_t currentVersion = 1;

struct Header {
  char magic[8];
  uint32_t version, idWidth;
  uint64_t vocabulary;
  uint32_t delimiter, zero;
  uint64_t documents, tokens;
  std::array<uint8_t, 32> tokenizer, content;
  uint8_t zeros[24];
  uint64_t headerHash;
};
static_assert(sizeof(Header) == 144);

uint64_t headerHash(const Header &header) {
  return xxhash64({reinterpret_cast<const char *>(&header), offsetof(Header, headerHash)});
}

constexpr uint64_t entryBytes = 3 * sizeof(uint64_t);
uint64_t paddedTo8(uint64_t bytes) {
  return (bytes + 7) / 8 * 8;
}

template <typename Id> uint64_t firstIdAtLeast(const uint8_t *bytes, uint64_t count, uint64_t limit) {
  const Id *ids = reinterpret_cast<const Id *>(bytes);
  return static_cast<uint64_t>(std::find_if(ids, ids + count, [=](Id id) { return id >= limit; }) - ids);
}

} // namespace

void DocumentView::copy(uint64_t first, uint64_t count, int32_t *out) const {
  if (width == 4) {
    std::memcpy(out, ids + first * 4, count * 4);
    return;
  }
  const uint16_t *from = reinterpret_cast<const uint16_t *>(ids) + first;
  for (uint64_t i = 0; i < count; ++i)
    out[i] = from[i];
}

StatusOr<Shard> Shard::open(const std::string &path) {
  Shard shard;
  SLUICE_ASSIGN_OR_RETURN(shard.file, MappedFile::open(path));
  SLUICE_RETURN_IF_ERROR(shard.check(path));
  return shard;
}

Status Shard::check(const std::string &path) {
  auto bad = [&](const auto &...parts) {
    return badInputError("'", path, "': ", parts..., "; pack the data again with `sluice data pack`");
  };
  Header header;
  if (file.size() < sizeof header)
    return bad("expected a token shard of at least ", sizeof header, " bytes, found ", file.size());
  std::memcpy(&header, file.data(), sizeof header);
  if (std::memcmp(header.magic, magic, sizeof magic) != 0)
    return bad("expected a token shard (magic SLUSHARD), found another kind of file");
  if (header.version != currentVersion)
    return bad("expected shard version ", currentVersion, ", found ", header.version);
  if (header.headerHash != headerHash(header))
    return bad("the header is damaged (its hash does not match)");
  if (header.idWidth != 2 && header.idWidth != 4)
    return bad("expected ids of 2 or 4 bytes, found width ", header.idWidth);
  uint64_t limit = header.idWidth == 2 ? 65536 : 1ull << 31;
  if (header.vocabulary == 0 || header.vocabulary > limit)
    return bad("expected a vocabulary of 1 to ", limit, ", found ", header.vocabulary);
  if (header.delimiter >= header.vocabulary)
    return bad("expected a delimiter below the vocabulary ", header.vocabulary, ", found ", header.delimiter);
  if (header.zero != 0 ||
      std::any_of(header.zeros, std::end(header.zeros), [](uint8_t byte) { return byte; }))
    return bad("expected zeros in the header's reserved bytes, found others");
  // Compared in this order, nothing below can overflow.
  uint64_t room = file.size() - sizeof header;
  if (header.documents == 0 || header.tokens < header.documents || header.tokens > room / header.idWidth ||
      header.documents > room / entryBytes ||
      paddedTo8(header.tokens * header.idWidth) + header.documents * entryBytes != room)
    return bad("the file's size does not fit its header: ", file.size(), " bytes for ", header.documents,
               " documents and ", header.tokens, " tokens of ", header.idWidth,
               " bytes (cut short or extended?)");

  width = static_cast<int>(header.idWidth);
  vocabularySize = header.vocabulary;
  delimiterId = static_cast<int32_t>(header.delimiter);
  documentCount = header.documents;
  tokenCount = header.tokens;
  tokenizerSha256 = toHex(header.tokenizer);
  contentSha256 = toHex(header.content);
  ids = file.data() + sizeof header;
  uint64_t idBytes = tokenCount * header.idWidth;
  table = ids + paddedTo8(idBytes);

  // The cheap checks with a precise message come before the hash, which only says that something is wrong.
  uint64_t wrong = width == 2 ? firstIdAtLeast<uint16_t>(ids, tokenCount, vocabularySize)
                              : firstIdAtLeast<uint32_t>(ids, tokenCount, vocabularySize);
  if (wrong < tokenCount) {
    uint32_t id = 0;
    std::memcpy(&id, ids + wrong * header.idWidth, header.idWidth);
    return bad("expected ids below the vocabulary ", vocabularySize, ", found ", id, " at token ", wrong);
  }
  if (std::any_of(ids + idBytes, table, [](uint8_t byte) { return byte != 0; }))
    return bad("expected zero bytes between ids and document table, found others");
  for (uint64_t index = 0; index < documentCount; ++index) {
    uint64_t first = tableEntry(index, 0), bytes = tableEntry(index, 1), characters = tableEntry(index, 2);
    uint64_t end = index + 1 < documentCount ? tableEntry(index + 1, 0) : tokenCount;
    if ((index == 0 && first != 0) || first >= end || end > tokenCount)
      return bad("document ", index, ": expected increasing first tokens from 0, found ", first, " before ",
                 end);
    if (characters == 0 || characters > bytes || bytes > 4 * characters)
      return bad("document ", index, ": expected 1 to 4 bytes a character, found ", bytes, " bytes for ",
                 characters, " characters");
  }
  Sha256 hash;
  hash.update(ids, room);
  if (hash.finish() != header.content)
    return bad("the content is damaged (its SHA-256 does not match the header's)");
  return absl::OkStatus();
}

uint64_t Shard::tableEntry(uint64_t index, int field) const {
  uint64_t value;
  std::memcpy(&value, table + index * entryBytes + static_cast<uint64_t>(field) * sizeof value, sizeof value);
  return value;
}

DocumentView Shard::document(uint64_t index) const {
  uint64_t first = tableEntry(index, 0);
  uint64_t end = index + 1 < documentCount ? tableEntry(index + 1, 0) : tokenCount;
  return {ids + first * static_cast<uint64_t>(width), width, end - first, tableEntry(index, 1),
          tableEntry(index, 2)};
}

ShardWriter::ShardWriter(uint64_t vocabulary, int32_t delimiter, std::string tokenizerHash)
    : vocabulary(vocabulary), delimiter(delimiter), tokenizerHash(std::move(tokenizerHash)),
      width(vocabulary <= 65536 ? 2 : 4) {}

void ShardWriter::add(const int32_t *documentIds, uint64_t count, uint64_t bytes, uint64_t characters) {
  table.insert(table.end(), {tokenCount, bytes, characters});
  tokenCount += count;
  for (uint64_t i = 0; i < count; ++i) // little-endian: the low bytes come first
    ids.append(reinterpret_cast<const char *>(&documentIds[i]), static_cast<size_t>(width));
}

StatusOr<std::string> ShardWriter::write(const std::string &path) {
  ids.resize(paddedTo8(ids.size()));
  Header header{};
  std::memcpy(header.magic, magic, sizeof magic);
  header.version = currentVersion;
  header.idWidth = static_cast<uint32_t>(width);
  header.vocabulary = vocabulary;
  header.delimiter = static_cast<uint32_t>(delimiter);
  header.documents = documents();
  header.tokens = tokenCount;
  for (size_t i = 0; i < header.tokenizer.size(); ++i)
    header.tokenizer[i] = static_cast<uint8_t>(std::stoi(tokenizerHash.substr(2 * i, 2), nullptr, 16));
  std::string_view tableBytes{reinterpret_cast<const char *>(table.data()), table.size() * sizeof table[0]};
  Sha256 hash;
  hash.update(ids);
  hash.update(tableBytes);
  header.content = hash.finish();
  header.headerHash = headerHash(header);
  std::string bytes(reinterpret_cast<const char *>(&header), sizeof header);
  bytes.reserve(sizeof header + ids.size() + tableBytes.size());
  bytes += ids;
  bytes += tableBytes;
  ids.clear();
  table.clear();
  tokenCount = 0;
  SLUICE_RETURN_IF_ERROR(writeFile(path, bytes, /*sync=*/true));
  return toHex(header.content);
}

} // namespace sluice
