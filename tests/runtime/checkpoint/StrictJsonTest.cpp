// Strict JSON: what the library would let pass and we do not.
#include "runtime/checkpoint/StrictJson.h"
#include "TestFiles.h"

#include <cmath>

using namespace sluice;
using namespace sluice::test;

namespace {

TEST(StrictJson, ReadsLikeTheLibrary) {
  std::string text = R"({"a":[1,-2,2.5,true,null,"x",{"b":{}}],"seed":18446744073709551615,"c":[]})";
  StatusOr<nlohmann::json> value = parseStrictJson(text, "memory");
  ASSERT_TRUE(value.ok()) << value.status();
  EXPECT_EQ(*value, nlohmann::json::parse(text));
  EXPECT_EQ((*value)["seed"].get<uint64_t>(), ~uint64_t(0));
}

TEST(StrictJson, Refuses) {
  const std::pair<std::string, const char *> cases[] = {
      {R"({"a":1,"a":1})", "'a' twice"},
      {R"([{"a":{"b":1,"b":2}}])", "'b' twice"},
      {"{} x", "JSON"},
      {"", "JSON"},
      {"{\"a\":NaN}", "JSON"},
      {"[1e999]", "JSON"},
      {std::string("{}\0{}", 5), "NUL"},
      {"\"\xff\"", "JSON"},
      {std::string(65, '[') + std::string(65, ']'), "at most 64"},
      {std::string(1000000, '['), "at most 64"},
  };
  for (const auto &[text, expected] : cases) {
    Status status = parseStrictJson(text, "file.json").status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << text.substr(0, 50);
    EXPECT_TRUE(mentions(status, expected) && mentions(status, "file.json")) << status;
  }
  EXPECT_TRUE(parseStrictJson(std::string(64, '[') + std::string(64, ']'), "file.json").ok());
}

TEST(StrictJson, WritesNothingThatJsonCannotHold) {
  EXPECT_TRUE(mentions(dumpStrictJson({{"best", {{"loss", NAN}}}}, "state").status(), "/best/loss"));
  EXPECT_TRUE(mentions(dumpStrictJson({1.0, INFINITY}, "state").status(), "/1"));
  EXPECT_FALSE(dumpStrictJson("\xff", "state").ok());
  EXPECT_EQ(*dumpStrictJson({{"a", 0.1}}, "state"), R"({"a":0.1})");
}

TEST(StrictJson, PlainFileNames) {
  EXPECT_TRUE(isPlainFileName("model.safetensors"));
  EXPECT_TRUE(isPlainFileName("..a"));
  for (std::string_view name : std::initializer_list<std::string_view>{"", ".", "..", "a/b", "/a", "a\\b",
                                                                       std::string_view("a\0b", 3)})
    EXPECT_FALSE(isPlainFileName(name)) << name;
}

} // namespace
