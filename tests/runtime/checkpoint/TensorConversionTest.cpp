// Conversions between element types: known bit patterns, limits, and what "exact" refuses.
#include "runtime/checkpoint/TensorConversion.h"
#include "TestFiles.h"

#include <cmath>
#include <limits>

using namespace sluice;
using namespace sluice::test;

namespace {

template <typename T> TensorView viewOf(TensorType type, const std::vector<T> &values) {
  return {"t",
          type,
          {static_cast<int64_t>(values.size())},
          reinterpret_cast<const uint8_t *>(values.data()),
          values.size() * sizeof(T)};
}

TEST(TensorConversion, HalfPrecisionPatterns) {
  std::vector<uint16_t> half = {0x3c00, 0xc000, 0x7bff, 0x0400, 0x0001, 0x8001,
                                0x03ff, 0x7c00, 0xfc00, 0x0000, 0x8000, 0x3555};
  std::vector<float> expected = {1,         -2,        65504,           0x1p-14f,
                                 0x1p-24f,  -0x1p-24f, 1023 * 0x1p-24f, INFINITY,
                                 -INFINITY, 0.0f,      -0.0f,           1365 * 0x1p-12f};
  StatusOr<std::vector<float>> values = toFloat32(viewOf(TensorType::F16, half), Conversion::Exact);
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_EQ(*values, expected);
  EXPECT_TRUE(std::signbit((*values)[10]));
  std::vector<uint16_t> nan = {0x7e00};
  EXPECT_TRUE(std::isnan((*toFloat64(viewOf(TensorType::F16, nan), Conversion::Exact))[0]));
}

TEST(TensorConversion, Bfloat16Patterns) {
  std::vector<uint16_t> values = {0x3f80, 0xc000, 0x7f80, 0x0001, 0x4049};
  std::vector<double> expected = {1, -2, INFINITY, 0x1p-133, 3.140625};
  EXPECT_EQ(*toFloat64(viewOf(TensorType::BF16, values), Conversion::Exact), expected);
}

TEST(TensorConversion, RoundsToNearestEven) {
  std::vector<double> values = {1 + 0x1p-24, 1 + 3 * 0x1p-24, 1e300, 0.5};
  std::vector<float> expected = {1, 1 + 0x1p-22f, INFINITY, 0.5f};
  EXPECT_EQ(*toFloat32(viewOf(TensorType::F64, values)), expected);
  EXPECT_EQ(*toFloat64(viewOf(TensorType::F64, values), Conversion::Exact), values);
}

TEST(TensorConversion, ExactRefusesARoundedValueAndNamesIt) {
  std::vector<double> values = {0.5, 0.1};
  Status status = toFloat32(viewOf(TensorType::F64, values), Conversion::Exact).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_TRUE(mentions(status, "element 1")) << status;
  EXPECT_TRUE(mentions(status, "'t'")) << status;

  std::vector<int64_t> integers = {(int64_t(1) << 24) + 1};
  EXPECT_FALSE(toFloat32(viewOf(TensorType::I64, integers), Conversion::Exact).ok());
  EXPECT_TRUE(toFloat64(viewOf(TensorType::I64, integers), Conversion::Exact).ok());
  // Rounds up to 2^63, which no int64 holds: the check itself must not overflow.
  integers = {std::numeric_limits<int64_t>::max()};
  EXPECT_FALSE(toFloat64(viewOf(TensorType::I64, integers), Conversion::Exact).ok());
  EXPECT_FALSE(toFloat32(viewOf(TensorType::I64, integers), Conversion::Exact).ok());
  integers = {std::numeric_limits<int64_t>::min()};
  EXPECT_TRUE(toFloat32(viewOf(TensorType::I64, integers), Conversion::Exact).ok());
  std::vector<int32_t> small = {std::numeric_limits<int32_t>::max()};
  EXPECT_FALSE(toFloat32(viewOf(TensorType::I32, small), Conversion::Exact).ok());
}

TEST(TensorConversion, IntegersAreAlwaysExact) {
  std::vector<int64_t> ids = {0, -1, 2147483647, -2147483648LL};
  EXPECT_EQ(*toInt32(viewOf(TensorType::I64, ids)), (std::vector<int32_t>{0, -1, 2147483647, -2147483648}));
  EXPECT_FALSE(toInt32(viewOf(TensorType::I64, std::vector<int64_t>{2147483648LL})).ok());
  EXPECT_EQ(*toInt32(viewOf(TensorType::F32, std::vector<float>{3.0f, -0.0f})), (std::vector<int32_t>{3, 0}));
  EXPECT_FALSE(toInt32(viewOf(TensorType::F32, std::vector<float>{0.5f})).ok());
  EXPECT_FALSE(toInt32(viewOf(TensorType::F32, std::vector<float>{NAN})).ok());
  EXPECT_FALSE(toInt32(viewOf(TensorType::F32, std::vector<float>{0x1p31f})).ok());
  EXPECT_FALSE(toInt32(viewOf(TensorType::F64, std::vector<double>{2147483647.5})).ok());
  EXPECT_TRUE(toInt32(viewOf(TensorType::F32, std::vector<float>{-0x1p31f})).ok());
}

TEST(TensorConversion, OtherTypesAreRefusedByName) {
  Status status = toFloat32(viewOf(TensorType::U8, std::vector<uint8_t>{1})).status();
  EXPECT_TRUE(mentions(status, "found U8")) << status;
}

TEST(TensorConversion, UnalignedDataIsRead) {
  std::string bytes = "x" + bytesOf<double>({1.25, -3});
  TensorView view{"t", TensorType::F64, {2}, reinterpret_cast<const uint8_t *>(bytes.data()) + 1, 16};
  EXPECT_EQ(*toFloat64(view), (std::vector<double>{1.25, -3}));
}

} // namespace
