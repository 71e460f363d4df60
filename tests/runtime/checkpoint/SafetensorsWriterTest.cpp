// The writer: the format's golden file, canonical order, streaming, and what it refuses.
#include "runtime/checkpoint/SafetensorsWriter.h"
#include "TestFiles.h"
#include "runtime/checkpoint/Safetensors.h"
#include "runtime/support/Hash.h"

#include <cstring>

using namespace sluice;
using namespace sluice::test;

namespace {

StatusOr<std::string> writtenBytes(std::vector<TensorSource> tensors,
                                   const SafetensorsMetadata &metadata = defaultSafetensorsMetadata) {
  SLUICE_ASSIGN_OR_RETURN(SafetensorsWriter writer, SafetensorsWriter::create(std::move(tensors), metadata));
  std::string bytes;
  SLUICE_RETURN_IF_ERROR(writer.write([&](const void *data, size_t size) {
    bytes.append(static_cast<const char *>(data), size);
    return absl::OkStatus();
  }));
  EXPECT_EQ(bytes.size(), writer.size());
  return bytes;
}

TEST(SafetensorsWriter, GoldenFile) {
  // Length and digest were computed outside this project from the format's description.
  float a[] = {1.0f, -2.0f};
  StatusOr<std::string> bytes = writtenBytes({{"a", TensorType::F32, {2}, a}});
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_EQ(bytes->size(), 104u);
  EXPECT_EQ((*bytes)[0], 88);
  EXPECT_EQ(sha256Hex(*bytes), "95aead0b1a3227f0328a0bdb7b3ef03760e205159a3920d03624bd3237f962e5");
}

TEST(SafetensorsWriter, OrdersByAlignmentThenName) {
  std::string zeros(64, '\0');
  StatusOr<std::string> bytes = writtenBytes({{"b8", TensorType::U8, {3}, zeros.data()},
                                              {"z32", TensorType::F32, {1}, zeros.data()},
                                              {"a32", TensorType::F32, {1}, zeros.data()},
                                              {"half", TensorType::BF16, {1}, zeros.data()},
                                              {"w64", TensorType::F64, {1}, zeros.data()}});
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  StatusOr<SafetensorsFile> file = SafetensorsFile::parse(*bytes, "memory");
  ASSERT_TRUE(file.ok()) << file.status();
  std::vector<std::string> order;
  for (const TensorView &view : file->tensors()) {
    order.push_back(view.name);
    size_t position = static_cast<size_t>(view.data - reinterpret_cast<const uint8_t *>(bytes->data()));
    EXPECT_EQ(position % (tensorTypeBits(view.type) / 8), 0u) << view.name;
  }
  EXPECT_EQ(order, (std::vector<std::string>{"w64", "a32", "z32", "half", "b8"}));
}

TEST(SafetensorsWriter, FillStreamsInPieces) {
  // Larger than one piece, with a length that is no multiple of it.
  const size_t count = (size_t(1) << 20) * 5 / 8 + 3;
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i)
    values[i] = static_cast<float>(i);
  size_t calls = 0;
  TensorSource streamed{"t", TensorType::F32, {static_cast<int64_t>(count)}};
  streamed.fill = [&](uint64_t offset, void *destination, size_t size) {
    ++calls;
    std::memcpy(destination, reinterpret_cast<const char *>(values.data()) + offset, size);
    return absl::OkStatus();
  };
  StatusOr<std::string> bytes = writtenBytes({streamed});
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_GT(calls, 1u);
  EXPECT_EQ(*bytes, *writtenBytes({{"t", TensorType::F32, {static_cast<int64_t>(count)}, values.data()}}));
}

TEST(SafetensorsWriter, ErrorsOfSinkAndFillComeBack) {
  float value = 1;
  StatusOr<SafetensorsWriter> writer = SafetensorsWriter::create({{"a", TensorType::F32, {1}, &value}});
  ASSERT_TRUE(writer.ok());
  EXPECT_TRUE(mentions(writer->write([](const void *, size_t) { return failure("disk"); }), "disk"));
  TensorSource broken{"a", TensorType::F32, {1}};
  broken.fill = [](uint64_t, void *, size_t) { return failure("device"); };
  EXPECT_TRUE(mentions(writtenBytes({broken}).status(), "device"));
}

TEST(SafetensorsWriter, RefusesWhatCannotBeRead) {
  float value = 1;
  EXPECT_TRUE(mentions(
      writtenBytes({{"a", TensorType::F32, {1}, &value}, {"a", TensorType::F64, {0}, &value}}).status(),
      "twice"));
  EXPECT_TRUE(mentions(writtenBytes({{"__metadata__", TensorType::F32, {1}, &value}}).status(), "reserved"));
  EXPECT_TRUE(mentions(writtenBytes({{"a", TensorType::F32, {-1}, &value}}).status(), "-1"));
  EXPECT_TRUE(mentions(writtenBytes({{"a", TensorType::F4, {1}, &value}}).status(), "whole bytes"));
  EXPECT_TRUE(mentions(writtenBytes({{"a", TensorType::F32, {1}}}).status(), "neither"));
  EXPECT_TRUE(mentions(writtenBytes({{"\xff", TensorType::F32, {1}, &value}}).status(), "UTF-8"));
  EXPECT_TRUE(mentions(
      writtenBytes({{"a", TensorType::F32, {int64_t(1) << 40, int64_t(1) << 40}, &value}}).status(), "64"));
}

TEST(SafetensorsWriter, NamesAreEscapedAndReadBack) {
  float value = 1;
  std::string name = "a\"b\\c\n\xc3\xa9";
  StatusOr<std::string> bytes = writtenBytes({{name, TensorType::F32, {}, &value}}, {});
  ASSERT_TRUE(bytes.ok());
  StatusOr<SafetensorsFile> file = SafetensorsFile::parse(*bytes, "memory");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_NE(file->find(name), nullptr);
  EXPECT_TRUE(file->metadata().empty());
}

TEST(SafetensorsWriter, ZeroSizedTensorsNeedNoBytes) {
  StatusOr<std::string> bytes = writtenBytes({{"a", TensorType::F32, {0, 5}}, {"b", TensorType::I64, {0}}});
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_TRUE(SafetensorsFile::parse(*bytes, "memory").ok());
}

} // namespace
