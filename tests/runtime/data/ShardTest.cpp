// Shards: what is written is read, and no damage passes.
#include "runtime/data/Shard.h"
#include "runtime/support/Hash.h"
#include "tests/runtime/data/TestData.h"

#include <cstring>

namespace sluice {
namespace {

const std::string tokenizerHash = sha256Hex("a tokenizer");

/// A shard of three documents: 5, 1 and 2 tokens.
std::string shardBytes(const test::TemporaryFolder &folder, uint64_t vocabulary) {
  ShardWriter writer(vocabulary, 1, tokenizerHash);
  const int32_t largest = static_cast<int32_t>(vocabulary) - 1;
  std::vector<int32_t> a = {2, 3, largest, 4, 0}, b = {7}, c = {1, 2};
  writer.add(a.data(), a.size(), 12, 9);
  writer.add(b.data(), b.size(), 1, 1);
  writer.add(c.data(), c.size(), 8, 2);
  EXPECT_EQ(writer.tokens(), 8u);
  EXPECT_EQ(writer.documents(), 3u);
  EXPECT_TRUE(writer.write(folder / "x.shard").ok());
  return readFile(folder / "x.shard").value();
}

template <typename Value> void put(std::string &bytes, size_t at, Value value) {
  std::memcpy(bytes.data() + at, &value, sizeof value);
}

/// Makes header and content hashes right again, as somebody who forges a shard would.
void reseal(std::string &bytes) {
  Sha256 hash;
  hash.update(std::string_view(bytes).substr(144));
  auto digest = hash.finish();
  std::memcpy(bytes.data() + 80, digest.data(), digest.size());
  put(bytes, 136, xxhash64(std::string_view(bytes).substr(0, 136)));
}

Status openBytes(const test::TemporaryFolder &folder, const std::string &bytes) {
  return Shard::open(folder.write("damaged.shard", bytes)).status();
}

TEST(Shard, RoundTripsBothWidths) {
  test::TemporaryFolder folder;
  for (auto [vocabulary, width] : {std::pair<uint64_t, int>{300, 2}, {65536, 2}, {65537, 4}, {200000, 4}}) {
    shardBytes(folder, vocabulary);
    auto shard = Shard::open(folder / "x.shard");
    ASSERT_OK(shard.status());
    EXPECT_EQ(shard->idWidth(), width);
    EXPECT_EQ(shard->vocabulary(), vocabulary);
    EXPECT_EQ(shard->delimiter(), 1);
    EXPECT_EQ(shard->tokenizerHash(), tokenizerHash);
    ASSERT_EQ(shard->documents(), 3u);
    EXPECT_EQ(shard->tokens(), 8u);
    EXPECT_EQ(shard->document(0).tokens, 5u);
    EXPECT_EQ(shard->document(0)[2], static_cast<int32_t>(vocabulary) - 1);
    EXPECT_EQ(shard->document(1)[0], 7);
    EXPECT_EQ(shard->document(2).bytes, 8u);
    EXPECT_EQ(shard->document(2).characters, 2u);
    std::vector<int32_t> ids(3);
    shard->document(0).copy(1, 3, ids.data());
    EXPECT_EQ(ids, (std::vector<int32_t>{3, static_cast<int32_t>(vocabulary) - 1, 4}));
  }
}

TEST(Shard, EveryTruncationIsRefused) {
  test::TemporaryFolder folder;
  std::string bytes = shardBytes(folder, 300);
  for (size_t size = 0; size < bytes.size(); ++size) {
    Status status = openBytes(folder, bytes.substr(0, size));
    ASSERT_EQ(exitCode(status), ExitCode::BadInput) << size;
    ASSERT_EQ(test::message(status).find('\n'), std::string::npos);
  }
  EXPECT_EQ(exitCode(openBytes(folder, bytes + std::string(24, '\0'))), ExitCode::BadInput);
}

TEST(Shard, EveryFlippedBitIsRefused) {
  test::TemporaryFolder folder;
  std::string bytes = shardBytes(folder, 300);
  for (size_t at = 0; at < bytes.size(); ++at)
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = bytes;
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << bit));
      ASSERT_EQ(exitCode(openBytes(folder, damaged)), ExitCode::BadInput) << at << "." << bit;
    }
}

TEST(Shard, ForeignFilesAreRefused) {
  test::TemporaryFolder folder;
  EXPECT_HAS(test::message(openBytes(folder, std::string(4096, 'x'))), "another kind of file");
  EXPECT_EQ(Shard::open(folder / "missing").status().code(), absl::StatusCode::kNotFound);
}

TEST(Shard, ForgedFieldsAreNamed) {
  test::TemporaryFolder folder;
  const std::string bytes = shardBytes(folder, 300);
  auto forged = [&](size_t at, auto value) {
    std::string damaged = bytes;
    put(damaged, at, value);
    reseal(damaged);
    Status status = openBytes(folder, damaged);
    EXPECT_EQ(exitCode(status), ExitCode::BadInput);
    return test::message(status);
  };
  const size_t ids = 144, table = 144 + 16;
  EXPECT_HAS(forged(8, uint32_t{2}), "expected shard version 1, found 2");
  EXPECT_HAS(forged(12, uint32_t{3}), "width 3");
  EXPECT_HAS(forged(16, uint64_t{0}), "found 0");
  EXPECT_HAS(forged(16, uint64_t{65537}), "found 65537");
  EXPECT_HAS(forged(16, uint64_t{299}), "expected ids below the vocabulary 299, found 299 at token 2");
  EXPECT_HAS(forged(24, uint32_t{300}), "delimiter");
  EXPECT_HAS(forged(28, uint32_t{1}), "reserved");
  EXPECT_HAS(forged(32, uint64_t{2}), "size does not fit");
  EXPECT_HAS(forged(32, uint64_t{0}), "size does not fit");
  EXPECT_HAS(forged(40, ~uint64_t{0}), "size does not fit");
  EXPECT_HAS(forged(40, uint64_t{1} << 63), "size does not fit");
  EXPECT_HAS(forged(40, uint64_t{7}), "expected zero bytes"); // the same padded size
  EXPECT_HAS(forged(115, uint8_t{1}), "reserved");
  EXPECT_HAS(forged(ids + 4, uint16_t{300}), "found 300 at token 2");
  EXPECT_HAS(forged(table, uint64_t{1}), "document 0");
  EXPECT_HAS(forged(table + 24, uint64_t{0}), "document 0");
  EXPECT_HAS(forged(table + 48, uint64_t{9}), "document 1");
  EXPECT_HAS(forged(table + 32, uint64_t{0}), "bytes");
  EXPECT_HAS(forged(table + 8, uint64_t{37}), "1 to 4 bytes");
}

} // namespace
} // namespace sluice
