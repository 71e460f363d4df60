// Every rule of the safetensors format, one damaged file each; the cases mirror the format's own tests by
// name.
#include "runtime/checkpoint/Safetensors.h"
#include "TestFiles.h"

#include <cstring>

using namespace sluice;
using namespace sluice::test;

namespace {

struct BadFile {
  const char *name;
  std::string bytes;
  const char *expected; // a part of the message
  absl::StatusCode code = absl::StatusCode::kDataLoss;
};

std::string header(const char *entries, size_t dataBytes) {
  return safetensorsBytes(entries, std::string(dataBytes, '\0'));
}

std::string rawLength(uint64_t length, std::string_view rest) {
  return bytesOf({length}).append(rest);
}

std::vector<BadFile> badFiles() {
  std::string deep = "{\"a\":" + std::string(100000, '[') + std::string(100000, ']') + "}";
  std::string deepObjects;
  for (int i = 0; i < 50000; ++i)
    deepObjects += "{\"a\":";
  return {
      {"empty", "", "at least 8 bytes"},
      {"header_too_small", std::string(7, '\0'), "at least 8 bytes"},
      {"header_too_large", rawLength(100'000'001, "{}"), "at most 100000000"},
      {"header_length_of_all_ones", rawLength(~uint64_t(0), "{}"), "at most 100000000"},
      {"invalid_header_length", rawLength(60, "{}"), "cut off"},
      {"no_header", rawLength(0, ""), "starts with '{'"},
      {"whitespace_start", safetensorsBytes(" {}"), "starts with '{'"},
      {"invalid_header_non_utf8", safetensorsBytes("{\"\xff\":1}"), "UTF-8"},
      {"invalid_header_not_json", safetensorsBytes("{"), "JSON"},
      {"text_after_the_object", safetensorsBytes("{} {}"), "JSON"},
      {"nul_ends_the_json_early", safetensorsBytes(std::string_view("{}\0garbage", 10)), "NUL"},
      {"json_attack_nested_arrays", safetensorsBytes(deep), "expected an object"},
      {"json_attack_nested_objects", safetensorsBytes(deepObjects), "expected dtype"},
      {"metadata_incomplete_buffer", header(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 4),
       "cut off"},
      {"trailing_bytes", header(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 12),
       "follow the last"},
      {"trailing_bytes_without_tensors", header("{}", 1), "follow the last"},
      {"invalid_offset_hole_at_start", header(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", 8),
       "hole"},
      {"hole_between",
       header(
           R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}})",
           3),
       "hole"},
      {"overlap",
       header(
           R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
           3),
       "overlap"},
      {"same_span_twice",
       header(
           R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})",
           2),
       "overlap"},
      {"invalid_info_size", header(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4),
       "for its shape"},
      {"end_before_begin",
       header(
           R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"b":{"dtype":"U8","shape":[1],"data_offsets":[1,0]}})",
           0),
       "start at byte 0"},
      {"validation_overflow_shape",
       header(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0),
       "within 64 bits"},
      {"validation_overflow_bytes",
       header(R"({"a":{"dtype":"F32","shape":[4611686018427387904],"data_offsets":[0,0]}})", 0),
       "within 64 bits"},
      {"validation_overflow_before_zero",
       header(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296,0],"data_offsets":[0,0]}})", 0),
       "within 64 bits"},
      {"dimension_beyond_64_bits",
       header(R"({"a":{"dtype":"F32","shape":[18446744073709551616],"data_offsets":[0,0]}})", 0),
       "beyond 64 bits"},
      {"negative_dimension", header(R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4),
       "negative"},
      {"fractional_dimension", header(R"({"a":{"dtype":"F32","shape":[1.0],"data_offsets":[0,4]}})", 4),
       "fraction"},
      {"half_bytes", header(R"({"a":{"dtype":"F4","shape":[3],"data_offsets":[0,2]}})", 2), "whole bytes"},
      {"unknown_dtype", header(R"({"a":{"dtype":"F31","shape":[1],"data_offsets":[0,4]}})", 4), "'F31'",
       absl::StatusCode::kUnimplemented},
      {"dtype_in_lower_case", header(R"({"a":{"dtype":"f32","shape":[1],"data_offsets":[0,4]}})", 4), "'f32'",
       absl::StatusCode::kUnimplemented},
      {"duplicate_tensor",
       header(
           R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
           2),
       "twice"},
      {"duplicate_empty_tensor",
       header(
           R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})",
           0),
       "twice"},
      {"duplicate_field", header(R"({"a":{"dtype":"U8","dtype":"I8","shape":[1],"data_offsets":[0,1]}})", 1),
       "twice"},
      {"duplicate_metadata", safetensorsBytes(R"({"__metadata__":{},"__metadata__":{}})"), "twice"},
      {"duplicate_metadata_key", safetensorsBytes(R"({"__metadata__":{"a":"1","a":"2"}})"), "twice"},
      {"metadata_not_text", safetensorsBytes(R"({"__metadata__":{"a":1}})"), "expected a text"},
      {"metadata_nested", safetensorsBytes(R"({"__metadata__":{"a":{}}})"), "expected a text"},
      {"metadata_no_object", safetensorsBytes(R"({"__metadata__":"pt"})"), "expected an object"},
      {"unknown_field", header(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"stride":[1]}})", 1),
       "'stride'"},
      {"missing_field", header(R"({"a":{"dtype":"U8","shape":[1]}})", 1), "found only some"},
      {"three_offsets", header(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1,2]}})", 1),
       "two data_offsets"},
      {"nested_shape", header(R"({"a":{"dtype":"U8","shape":[[1]],"data_offsets":[0,1]}})", 1),
       "whole numbers"},
      {"shape_not_an_array", header(R"({"a":{"dtype":"U8","shape":1,"data_offsets":[0,1]}})", 1),
       "whole numbers"},
      {"tensor_not_an_object", safetensorsBytes(R"({"a":[]})"), "expected an object"},
      {"null_dtype", header(R"({"a":{"dtype":null,"shape":[1],"data_offsets":[0,1]}})", 1), "a text"},
  };
}

TEST(Safetensors, EveryBrokenRuleIsNamed) {
  for (const BadFile &file : badFiles()) {
    StatusOr<SafetensorsFile> result = SafetensorsFile::parse(file.bytes, "bad.safetensors");
    ASSERT_FALSE(result.ok()) << file.name;
    EXPECT_EQ(result.status().code(), file.code) << file.name << ": " << result.status();
    EXPECT_TRUE(mentions(result.status(), file.expected)) << file.name << ": " << result.status();
    EXPECT_TRUE(mentions(result.status(), "bad.safetensors")) << file.name << ": " << result.status();
    EXPECT_LT(result.status().message().size(), 400u) << file.name;
  }
}

TEST(Safetensors, ReadsTensorsInTheOrderOfTheirData) {
  std::string bytes = safetensorsBytes(
      R"({"b":{"data_offsets":[8,10],"shape":[1,2],"dtype":"I8"},"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}   )",
      bytesOf<float>({1.5f, -2.0f}) + bytesOf<int8_t>({3, -4}));
  StatusOr<SafetensorsFile> file = SafetensorsFile::parse(bytes, "memory");
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_EQ(file->tensors().size(), 2u);
  EXPECT_EQ(file->tensors()[0].name, "a");
  EXPECT_EQ(file->metadata().at("format"), "pt");
  const TensorView *b = file->find("b");
  ASSERT_NE(b, nullptr);
  EXPECT_EQ(b->type, TensorType::I8);
  EXPECT_EQ(b->shape, (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(b->bytes, 2u);
  EXPECT_EQ(static_cast<int8_t>(b->data[1]), -4);
  EXPECT_EQ(file->find("c"), nullptr);
}

TEST(Safetensors, AcceptsScalarsAndZeroSizedTensors) {
  std::string bytes = safetensorsBytes(
      R"({"scalar":{"dtype":"F32","shape":[],"data_offsets":[0,4]},"zero_sized_tensor":{"dtype":"F32","shape":[2,0],"data_offsets":[0,0]},"z2":{"dtype":"F64","shape":[0],"data_offsets":[4,4]}})",
      bytesOf<float>({7.0f}));
  StatusOr<SafetensorsFile> file = SafetensorsFile::parse(bytes, "memory");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->find("scalar")->elements(), 1);
  EXPECT_EQ(file->find("zero_sized_tensor")->elements(), 0);
  EXPECT_EQ(file->find("z2")->bytes, 0u);
}

TEST(Safetensors, AcceptsAFileWithoutTensors) {
  StatusOr<SafetensorsFile> file = SafetensorsFile::parse(safetensorsBytes("{}"), "memory");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE(file->tensors().empty());
}

TEST(Safetensors, KnowsEveryElementTypeOfTheFormat) {
  const std::pair<const char *, unsigned> types[] = {
      {"BOOL", 8},        {"F4", 4},          {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"U8", 8},   {"I8", 8},
      {"F8_E5M2", 8},     {"F8_E4M3", 8},     {"F8_E8M0", 8}, {"I16", 16},    {"U16", 16}, {"F16", 16},
      {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"BF16", 16},   {"I32", 32},    {"U32", 32}, {"F32", 32},
      {"C64", 64},        {"F64", 64},        {"I64", 64},    {"U64", 64}};
  for (auto [name, bits] : types) {
    std::string entry = std::string(R"({"t":{"dtype":")") + name + R"(","shape":[4],"data_offsets":[0,)" +
                        std::to_string(bits / 2) + "]}}";
    std::string bytes = header(entry.c_str(), bits / 2);
    StatusOr<SafetensorsFile> file = SafetensorsFile::parse(bytes, "memory");
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_EQ(tensorTypeName(file->find("t")->type), name);
    EXPECT_EQ(tensorTypeBits(file->find("t")->type), bits);
  }
}

TEST(Safetensors, EveryTruncationIsRefused) {
  std::string bytes = safetensorsBytes(
      R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"U8","shape":[3],"data_offsets":[8,11]}})",
      std::string(11, 'x'));
  ASSERT_TRUE(SafetensorsFile::parse(bytes, "whole").ok());
  for (size_t size = 0; size < bytes.size(); ++size)
    EXPECT_FALSE(SafetensorsFile::parse(std::string_view(bytes).substr(0, size), "cut").ok()) << size;
}

TEST(Safetensors, OpenKeepsTheMapAcrossMoves) {
  TemporaryFolder folder;
  std::string path = folder.path("a.safetensors");
  ASSERT_TRUE(writeFile(path, safetensorsBytes(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
                                               bytesOf({2.5f})))
                  .ok());
  StatusOr<SafetensorsFile> file = SafetensorsFile::open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  SafetensorsFile moved = std::move(*file);
  float value;
  std::memcpy(&value, moved.find("a")->data, sizeof value);
  EXPECT_EQ(value, 2.5f);
  EXPECT_TRUE(absl::IsNotFound(SafetensorsFile::open(folder.path("none")).status()));
}

TEST(Safetensors, HostileNamesAreCutAndEscapedInMessages) {
  std::string name(100000, 'n');
  std::string bytes =
      safetensorsBytes("{\"\\u001b[31m" + name + "\":{\"dtype\":\"X\",\"shape\":[],\"data_offsets\":[0,0]}}");
  Status status = SafetensorsFile::parse(bytes, "memory").status();
  EXPECT_LT(status.message().size(), 400u);
  EXPECT_FALSE(mentions(status, "\x1b"));
}

} // namespace
