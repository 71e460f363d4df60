// Every arithmetic instruction against values computed from its definition, over all pairs of edge values.
#include "tests/runtime/device/cudasim/CudaDriver.h"

#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <random>

namespace sluice::test {
namespace {

using Bits = uint64_t;
__extension__ typedef __float128 Quad;

float asFloat(Bits bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits));
}
Bits bitsOf(float value) {
  return value != value ? 0x7fffffff : std::bit_cast<uint32_t>(value);
}
double asDouble(Bits bits) {
  return std::bit_cast<double>(bits);
}
Bits bitsOf(double value) {
  return std::bit_cast<Bits>(value);
}
float flushed(float value) {
  return std::fabs(value) < std::numeric_limits<float>::min() ? std::copysign(0.0f, value) : value;
}

/// `exact` rounded towards zero (z), down (m) or up (p): the float next to it on that side.
float rounded(Quad exact, char mode) {
  float near = static_cast<float>(exact);
  const float infinity = std::numeric_limits<float>::infinity();
  if (exact != exact || std::isinf(static_cast<long double>(exact)))
    return near;
  const bool down = mode == 'm' || (mode == 'z' && exact > 0);
  if (down && static_cast<Quad>(near) > exact)
    near = std::nextafter(near, -infinity);
  if (!down && static_cast<Quad>(near) < exact)
    near = std::nextafter(near, infinity);
  return near;
}

/// One instruction: operand types as in program/InstructionTable.h, the result first; the values of b and c
/// are cut to their types before `expected` sees them.
struct Case {
  std::string instruction, signature;
  std::function<Bits(Bits a, Bits b, Bits c)> expected;
  double tolerance = 0; // relative, for float32 results that PTX calls approximate
};

class InstructionTest : public CudaSimTest {
protected:
  static std::string registerOf(char type, int index) {
    const std::string number = std::to_string(index);
    switch (type) {
    case 'p':
      return "%p" + number;
    case 'h':
      return "%h" + number;
    case 'w':
      return "%w" + number;
    case 'f':
      return "%f" + number;
    case 'd':
      return "%d" + number;
    default:
      return "%q" + number;
    }
  }

  static std::string kernelOf(const Case &one, size_t number) {
    std::string text =
        ".visible .entry k" + std::to_string(number) +
        "(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 r)\n{\n"
        ".reg .pred %p<8>; .reg .b16 %h<8>; .reg .b32 %w<8>; .reg .b32 %t<8>; .reg .b64 %q<8>;\n"
        ".reg .f32 %f<8>; .reg .f64 %d<8>; .reg .b64 %x<16>;\n"
        "mov.u32 %t0, %tid.x; mov.u32 %t1, %ctaid.x; mov.u32 %t2, %ntid.x;\n"
        "mad.lo.s32 %t3, %t1, %t2, %t0; mul.wide.u32 %x0, %t3, 8;\n";
    const char *parameters[] = {"r", "a", "b", "c"};
    for (size_t i = 1; i < one.signature.size(); ++i) {
      const std::string n = std::to_string(i), reg = registerOf(one.signature[i], static_cast<int>(i));
      text += "ld.param.u64 %x" + n + ", [" + parameters[i] + "]; add.s64 %x" + n + ", %x" + n +
              ", %x0; ld.global.u64 %q" + n + ", [%x" + n + "];\n";
      switch (one.signature[i]) {
      case 'p':
        text += "setp.ne.u64 " + reg + ", %q" + n + ", 0;\n";
        break;
      case 'h':
        text += "cvt.u16.u64 " + reg + ", %q" + n + ";\n";
        break;
      case 'w':
        text += "cvt.u32.u64 " + reg + ", %q" + n + ";\n";
        break;
      case 'f':
        text += "cvt.u32.u64 %t4, %q" + n + "; mov.b32 " + reg + ", %t4;\n";
        break;
      case 'd':
        text += "mov.b64 " + reg + ", %q" + n + ";\n";
        break;
      default:
        break;
      }
    }
    text += one.instruction + " " + registerOf(one.signature[0], 0);
    for (size_t i = 1; i < one.signature.size(); ++i)
      text += ", " + registerOf(one.signature[i], static_cast<int>(i));
    text += ";\n";
    switch (one.signature[0]) {
    case 'p':
      text += "selp.b64 %q0, 1, 0, %p0;\n";
      break;
    case 'h':
      text += "cvt.u64.u16 %q0, %h0;\n";
      break;
    case 'w':
      text += "cvt.u64.u32 %q0, %w0;\n";
      break;
    case 'f':
      text += "mov.b32 %t5, %f0; cvt.u64.u32 %q0, %t5;\n";
      break;
    case 'd':
      text += "mov.b64 %q0, %d0;\n";
      break;
    default:
      break;
    }
    return text + "ld.param.u64 %x7, [r]; add.s64 %x7, %x7, %x0; st.global.u64 [%x7], %q0;\nret;\n}\n";
  }

  static Bits cut(Bits value, char type) {
    switch (type) {
    case 'p':
      return value != 0;
    case 'h':
      return value & 0xffff;
    case 'w':
    case 'f':
      return value & 0xffffffff;
    default:
      return value;
    }
  }

  static std::vector<Bits> edges(char type) {
    std::mt19937_64 random(7);
    std::vector<Bits> values;
    if (type == 'f') {
      for (const float value :
           {0.0f, 1.0f, 1.5f, 0.1f, 2.0f, 3.0f, 0.5f, 2.5f, 1e-45f, 1.1754942e-38f, 1.17549435e-38f,
            3.4028235e38f, 1e10f, 4294967296.0f, 2147483648.0f, 0x1p127f})
        for (const float sign : {1.0f, -1.0f})
          values.push_back(std::bit_cast<uint32_t>(sign * value));
      for (const uint32_t bits : {0x7f800000u, 0xff800000u, 0x7fc00000u, 0xffffffffu})
        values.push_back(bits);
      for (int i = 0; i < 8; ++i)
        values.push_back(
            std::bit_cast<uint32_t>(std::ldexp(static_cast<float>(random() % 16777216), -20 - i)));
    } else if (type == 'd') {
      for (const double value : {0.0, 1.0, 1.5, 0.1, 2.5, 3.0, 5e-324, 2.2250738585072014e-308,
                                 1.7976931348623157e308, 4294967296.5, 9.3e18, 1e-40, 0x1p127})
        for (const double sign : {1.0, -1.0})
          values.push_back(bitsOf(sign * value));
      values.push_back(bitsOf(std::numeric_limits<double>::infinity()));
      values.push_back(bitsOf(std::numeric_limits<double>::quiet_NaN()));
    } else {
      for (const Bits value : {0ull,
                               1ull,
                               2ull,
                               5ull,
                               15ull,
                               16ull,
                               17ull,
                               31ull,
                               32ull,
                               33ull,
                               63ull,
                               64ull,
                               65ull,
                               127ull,
                               128ull,
                               255ull,
                               0x7fffull,
                               0x8000ull,
                               0xffffull,
                               0x12345678ull,
                               0x7fffffffull,
                               0x80000000ull,
                               0xffffffffull,
                               0x123456789abcdefull,
                               0x7fffffffffffffffull,
                               0x8000000000000000ull,
                               0xffffffffffffffffull,
                               0xfffffffffffffffeull})
        values.push_back(value);
    }
    return values;
  }

  void check(const std::vector<Case> &cases) {
    std::string text = ".version 8.0\n.target sm_80\n.address_size 64\n";
    for (size_t i = 0; i < cases.size(); ++i)
      text += kernelOf(cases[i], i);
    CUmodule module = load(text);
    ASSERT_NE(module, nullptr);
    for (size_t i = 0; i < cases.size(); ++i) {
      const Case &one = cases[i];
      const auto typeOf = [&](size_t at) { return at < one.signature.size() ? one.signature[at] : 'w'; };
      const std::vector<Bits> first = edges(typeOf(1)), second = edges(typeOf(2)), third = edges(typeOf(3));
      std::vector<Bits> a, b, c;
      for (size_t x = 0; x < first.size(); ++x)
        for (size_t y = 0; y < second.size(); ++y) {
          a.push_back(cut(first[x], typeOf(1)));
          b.push_back(cut(second[y], typeOf(2)));
          c.push_back(cut(third[(x * 5 + y * 3) % third.size()], typeOf(3)));
        }
      const size_t count = a.size() / 32 * 32;
      const CUdeviceptr pa = upload(a), pb = upload(b), pc = upload(c), pr = allocate(count * 8);
      ASSERT_EQ(run(function(module, ("k" + std::to_string(i)).c_str()), {static_cast<unsigned>(count / 32)},
                    pa, pb, pc, pr),
                CUDA_SUCCESS)
          << one.instruction << cuda().message();
      const std::vector<Bits> result = download<Bits>(pr, count);
      int wrong = 0;
      for (size_t at = 0; at < count && wrong < 3; ++at) {
        const Bits expected = cut(one.expected(a[at], b[at], c[at]), one.signature[0]);
        bool same = result[at] == expected;
        if (!same && one.signature[0] == 'd')
          same = std::isnan(asDouble(expected)) && std::isnan(asDouble(result[at]));
        if (!same && one.tolerance > 0) {
          const double want = asFloat(expected), found = asFloat(result[at]);
          same = std::fabs(found - want) <= one.tolerance * std::fabs(want) + 1.5e-45;
        }
        if (!same) {
          ++wrong;
          ADD_FAILURE() << one.instruction << std::hex << "(0x" << a[at] << ", 0x" << b[at] << ", 0x" << c[at]
                        << "): expected 0x" << expected << ", found 0x" << result[at];
        }
      }
      for (CUdeviceptr pointer : {pa, pb, pc, pr})
        cuda().cuMemFree_v2(pointer);
    }
  }
};

int32_t s32(Bits value) {
  return static_cast<int32_t>(value);
}
int64_t s64(Bits value) {
  return static_cast<int64_t>(value);
}
__extension__ typedef __int128 Wide;
__extension__ typedef unsigned __int128 UnsignedWide;

TEST_F(InstructionTest, Integers) {
  check({
      {"add.s32", "www", [](Bits a, Bits b, Bits) { return a + b; }},
      {"add.s64", "qqq", [](Bits a, Bits b, Bits) { return a + b; }},
      {"add.sat.s32", "www",
       [](Bits a, Bits b, Bits) {
         const int64_t sum = int64_t(s32(a)) + s32(b);
         return static_cast<Bits>(sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : sum);
       }},
      {"sub.u32", "www", [](Bits a, Bits b, Bits) { return a - b; }},
      {"sub.s64", "qqq", [](Bits a, Bits b, Bits) { return a - b; }},
      {"mul.lo.s32", "www", [](Bits a, Bits b, Bits) { return a * b; }},
      {"mul.lo.u64", "qqq", [](Bits a, Bits b, Bits) { return a * b; }},
      {"mul.hi.u32", "www", [](Bits a, Bits b, Bits) { return a * b >> 32; }},
      {"mul.hi.s32", "www",
       [](Bits a, Bits b, Bits) { return static_cast<Bits>(int64_t(s32(a)) * s32(b) >> 32); }},
      {"mul.hi.u64", "qqq",
       [](Bits a, Bits b, Bits) { return static_cast<Bits>(UnsignedWide(a) * b >> 64); }},
      {"mul.hi.s64", "qqq",
       [](Bits a, Bits b, Bits) { return static_cast<Bits>(Wide(s64(a)) * s64(b) >> 64); }},
      {"mul.wide.u32", "qww", [](Bits a, Bits b, Bits) { return a * b; }},
      {"mul.wide.s32", "qww",
       [](Bits a, Bits b, Bits) { return static_cast<Bits>(int64_t(s32(a)) * s32(b)); }},
      {"mul.wide.u16", "whh", [](Bits a, Bits b, Bits) { return a * b; }},
      {"mad.lo.s32", "wwww", [](Bits a, Bits b, Bits c) { return a * b + c; }},
      {"mad.wide.u32", "qwwq", [](Bits a, Bits b, Bits c) { return a * b + c; }},
      {"mad.hi.u32", "wwww", [](Bits a, Bits b, Bits c) { return (a * b >> 32) + c; }},
      {"div.u32", "www", [](Bits a, Bits b, Bits) { return b ? a / b : ~Bits(0); }},
      {"div.s32", "www",
       [](Bits a, Bits b, Bits) { return s32(b) ? static_cast<Bits>(int64_t(s32(a)) / s32(b)) : ~Bits(0); }},
      {"rem.u32", "www", [](Bits a, Bits b, Bits) { return b ? a % b : a; }},
      {"rem.s32", "www",
       [](Bits a, Bits b, Bits) { return s32(b) ? static_cast<Bits>(int64_t(s32(a)) % s32(b)) : a; }},
      {"div.s64", "qqq",
       [](Bits a, Bits b, Bits) { return b ? static_cast<Bits>(Wide(s64(a)) / s64(b)) : ~Bits(0); }},
      {"abs.s32", "ww", [](Bits a, Bits, Bits) { return s32(a) < 0 ? 0 - a : a; }},
      {"neg.s32", "ww", [](Bits a, Bits, Bits) { return 0 - a; }},
      {"min.s32", "www", [](Bits a, Bits b, Bits) { return s32(a) < s32(b) ? a : b; }},
      {"max.u32", "www", [](Bits a, Bits b, Bits) { return a > b ? a : b; }},
      {"min.u64", "qqq", [](Bits a, Bits b, Bits) { return a < b ? a : b; }},
      {"max.s64", "qqq", [](Bits a, Bits b, Bits) { return s64(a) > s64(b) ? a : b; }},
      {"sad.u32", "wwww", [](Bits a, Bits b, Bits c) { return c + (a > b ? a - b : b - a); }},
  });
}

TEST_F(InstructionTest, Bits) {
  check({
      {"and.b32", "www", [](Bits a, Bits b, Bits) { return a & b; }},
      {"or.b64", "qqq", [](Bits a, Bits b, Bits) { return a | b; }},
      {"xor.b16", "hhh", [](Bits a, Bits b, Bits) { return a ^ b; }},
      {"not.b32", "ww", [](Bits a, Bits, Bits) { return ~a; }},
      {"cnot.b32", "ww", [](Bits a, Bits, Bits) { return Bits(a == 0); }},
      {"and.pred", "ppp", [](Bits a, Bits b, Bits) { return a & b; }},
      {"xor.pred", "ppp", [](Bits a, Bits b, Bits) { return a ^ b; }},
      {"not.pred", "pp", [](Bits a, Bits, Bits) { return a ^ 1; }},
      // Counts of shifts are clamped, not taken modulo the width.
      {"shl.b32", "www", [](Bits a, Bits b, Bits) { return b > 31 ? 0 : a << b; }},
      {"shl.b64", "qqw", [](Bits a, Bits b, Bits) { return b > 63 ? 0 : a << b; }},
      {"shl.b16", "hhw", [](Bits a, Bits b, Bits) { return b > 15 ? 0 : a << b; }},
      {"shr.u32", "www", [](Bits a, Bits b, Bits) { return b > 31 ? 0 : a >> b; }},
      {"shr.s32", "www", [](Bits a, Bits b, Bits) { return static_cast<Bits>(s32(a) >> (b > 31 ? 31 : b)); }},
      {"shr.s64", "qqw", [](Bits a, Bits b, Bits) { return static_cast<Bits>(s64(a) >> (b > 63 ? 63 : b)); }},
      {"shf.l.wrap.b32", "wwww", [](Bits a, Bits b, Bits c) { return (b << 32 | a) << (c & 31) >> 32; }},
      {"shf.r.wrap.b32", "wwww", [](Bits a, Bits b, Bits c) { return (b << 32 | a) >> (c & 31); }},
      {"shf.l.clamp.b32", "wwww",
       [](Bits a, Bits b, Bits c) { return c >= 32 ? a : (b << 32 | a) << c >> 32; }},
      {"shf.r.clamp.b32", "wwww", [](Bits a, Bits b, Bits c) { return c >= 32 ? b : (b << 32 | a) >> c; }},
      {"popc.b32", "ww", [](Bits a, Bits, Bits) { return Bits(std::popcount(a)); }},
      {"popc.b64", "wq", [](Bits a, Bits, Bits) { return Bits(std::popcount(a)); }},
      {"clz.b32", "ww", [](Bits a, Bits, Bits) { return Bits(std::countl_zero(static_cast<uint32_t>(a))); }},
      {"bfind.u32", "ww", [](Bits a, Bits, Bits) { return a ? Bits(63 - std::countl_zero(a)) : ~Bits(0); }},
      {"bfind.shiftamt.u32", "ww",
       [](Bits a, Bits, Bits) { return a ? Bits(std::countl_zero(a) - 32) : ~Bits(0); }},
      {"brev.b32", "ww",
       [](Bits a, Bits, Bits) {
         Bits r = 0;
         for (int i = 0; i < 32; ++i)
           r |= (a >> i & 1) << (31 - i);
         return r;
       }},
      {"bfe.u32", "wwww",
       [](Bits a, Bits b, Bits c) {
         const Bits position = b & 255, length = c & 255;
         if (position > 31)
           return Bits(0);
         return length >= 32 ? a >> position : (a >> position) & ((Bits(1) << length) - 1);
       }},
      {"prmt.b32", "wwww",
       [](Bits a, Bits b, Bits c) {
         Bits r = 0;
         for (int i = 0; i < 4; ++i) {
           const Bits nibble = c >> (4 * i) & 15;
           const Bits byte = (b << 32 | a) >> (8 * (nibble & 7)) & 255;
           r |= (nibble & 8 ? (byte & 128 ? 255 : 0) : byte) << (8 * i);
         }
         return r;
       }},
  });
}

TEST_F(InstructionTest, Float32) {
  const auto binary = [](auto f) {
    return [f](Bits a, Bits b, Bits) { return bitsOf(static_cast<float>(f(asFloat(a), asFloat(b)))); };
  };
  const auto flushing = [](auto f) {
    return [f](Bits a, Bits b, Bits) { return bitsOf(flushed(f(flushed(asFloat(a)), flushed(asFloat(b))))); };
  };
  std::vector<Case> cases = {
      {"add.f32", "fff", binary([](float a, float b) { return a + b; })},
      {"add.rn.f32", "fff", binary([](float a, float b) { return a + b; })},
      {"sub.f32", "fff", binary([](float a, float b) { return a - b; })},
      {"mul.f32", "fff", binary([](float a, float b) { return a * b; })},
      {"div.rn.f32", "fff", binary([](float a, float b) { return a / b; })},
      {"add.ftz.f32", "fff", flushing([](float a, float b) { return a + b; })},
      {"mul.ftz.f32", "fff", flushing([](float a, float b) { return a * b; })},
      {"div.rn.ftz.f32", "fff", flushing([](float a, float b) { return a / b; })},
      {"add.sat.f32", "fff",
       binary([](float a, float b) { return a + b > 0 ? std::fmin(a + b, 1.0f) : 0.0f; })},
      {"fma.rn.f32", "ffff",
       [](Bits a, Bits b, Bits c) { return bitsOf(std::fma(asFloat(a), asFloat(b), asFloat(c))); }},
      {"fma.rn.ftz.f32", "ffff",
       [](Bits a, Bits b, Bits c) {
         return bitsOf(flushed(std::fma(flushed(asFloat(a)), flushed(asFloat(b)), flushed(asFloat(c)))));
       }},
      {"sqrt.rn.f32", "ff", [](Bits a, Bits, Bits) { return bitsOf(std::sqrt(asFloat(a))); }},
      {"rcp.rn.f32", "ff", [](Bits a, Bits, Bits) { return bitsOf(1.0f / asFloat(a)); }},
      {"neg.f32", "ff", [](Bits a, Bits, Bits) { return a ^ 0x80000000; }},
      {"abs.f32", "ff", [](Bits a, Bits, Bits) { return a & 0x7fffffff; }},
      {"copysign.f32", "fff", [](Bits a, Bits b, Bits) { return (a & 0x80000000) | (b & 0x7fffffff); }},
      // A number wins against NaN, and the zeros are ordered.
      {"min.f32", "fff",
       [](Bits a, Bits b, Bits) {
         const float x = asFloat(a), y = asFloat(b);
         if (x != x || y != y)
           return bitsOf(x != x ? y : x);
         return x == y ? (a > b ? a : b) : bitsOf(std::min(x, y));
       }},
      {"max.f32", "fff",
       [](Bits a, Bits b, Bits) {
         const float x = asFloat(a), y = asFloat(b);
         if (x != x || y != y)
           return bitsOf(x != x ? y : x);
         return x == y ? (a < b ? a : b) : bitsOf(std::max(x, y));
       }},
      {"max.NaN.f32", "fff",
       [](Bits a, Bits b, Bits) {
         const float x = asFloat(a), y = asFloat(b);
         if (x != x || y != y)
           return Bits(0x7fffffff);
         return x == y ? (a < b ? a : b) : bitsOf(std::max(x, y));
       }},
      // PTX gives bounds: 2^-22 for ex2 and rsqrt, 1 ulp for rcp.
      {"ex2.approx.f32", "ff",
       [](Bits a, Bits, Bits) { return bitsOf(static_cast<float>(std::exp2(double(asFloat(a))))); }, 0x1p-22},
      {"rsqrt.approx.f32", "ff",
       [](Bits a, Bits, Bits) { return bitsOf(static_cast<float>(1 / std::sqrt(double(asFloat(a))))); },
       0x1p-22},
      {"rcp.approx.ftz.f32", "ff",
       [](Bits a, Bits, Bits) { return bitsOf(flushed(1 / flushed(asFloat(a)))); }, 0x1p-23},
      {"lg2.approx.f32", "ff",
       [](Bits a, Bits, Bits) { return bitsOf(static_cast<float>(std::log2(double(asFloat(a))))); }, 0x1p-21},
      {"tanh.approx.f32", "ff",
       [](Bits a, Bits, Bits) { return bitsOf(static_cast<float>(std::tanh(double(asFloat(a))))); }, 0x1p-11},
  };
  check(cases);
}

TEST_F(InstructionTest, DirectedRounding) {
  // Operands of moderate size, for which a quad holds the exact result.
  const auto moderate = [](float x) { return x == 0 || (std::fabs(x) > 1e-6f && std::fabs(x) < 1e11f); };
  std::vector<Case> cases;
  for (const char mode : {'z', 'm', 'p'}) {
    const std::string suffix = std::string(".r") + mode + ".f32";
    const auto expect = [=](auto exact, auto device) {
      return [=](Bits a, Bits b, Bits) {
        const float x = asFloat(a), y = asFloat(b);
        // Outside of that only the sign of zero and NaN are of interest, which all modes share.
        if (!moderate(x) || !moderate(y) || y == 0 || exact(Quad(x), Quad(y)) == 0)
          return device;
        return bitsOf(rounded(exact(Quad(x), Quad(y)), mode));
      };
    };
    constexpr Bits kSkip = ~Bits(0);
    cases.push_back({"add" + suffix, "fff", expect([](Quad x, Quad y) { return x + y; }, kSkip)});
    cases.push_back({"mul" + suffix, "fff", expect([](Quad x, Quad y) { return x * y; }, kSkip)});
    cases.push_back({"div" + suffix, "fff", expect([](Quad x, Quad y) { return x / y; }, kSkip)});
  }
  // Cases without an exact value are those where the expectation is all ones: a NaN that never is a result.
  for (Case &one : cases) {
    const auto exact = one.expected;
    std::vector<Bits> values;
    for (const Bits bits : edges('f'))
      if (moderate(asFloat(bits)) && asFloat(bits) != 0)
        values.push_back(bits);
    std::vector<Bits> a, b;
    for (const Bits x : values)
      for (const Bits y : values) {
        a.push_back(x);
        b.push_back(y);
      }
    const size_t count = a.size() / 32 * 32;
    CUmodule module = load(".version 8.0\n.target sm_80\n.address_size 64\n" + kernelOf(one, 0));
    const CUdeviceptr pa = upload(a), pb = upload(b), pr = allocate(count * 8);
    ASSERT_EQ(run(function(module, "k0"), {static_cast<unsigned>(count / 32)}, pa, pb, pb, pr), CUDA_SUCCESS);
    const std::vector<Bits> result = download<Bits>(pr, count);
    for (size_t i = 0; i < count; ++i) {
      const Bits expected = exact(a[i], b[i], 0);
      if (expected != ~Bits(0))
        ASSERT_EQ(result[i], expected) << one.instruction << std::hex << " 0x" << a[i] << " 0x" << b[i];
    }
  }
}

TEST_F(InstructionTest, Float64) {
  const auto binary = [](auto f) {
    return [f](Bits a, Bits b, Bits) { return bitsOf(f(asDouble(a), asDouble(b))); };
  };
  check({
      {"add.f64", "ddd", binary([](double a, double b) { return a + b; })},
      {"sub.f64", "ddd", binary([](double a, double b) { return a - b; })},
      {"mul.f64", "ddd", binary([](double a, double b) { return a * b; })},
      {"div.rn.f64", "ddd", binary([](double a, double b) { return a / b; })},
      {"fma.rn.f64", "dddd",
       [](Bits a, Bits b, Bits c) { return bitsOf(std::fma(asDouble(a), asDouble(b), asDouble(c))); }},
      {"sqrt.rn.f64", "dd", [](Bits a, Bits, Bits) { return bitsOf(std::sqrt(asDouble(a))); }},
      {"neg.f64", "dd", [](Bits a, Bits, Bits) { return a ^ Bits(1) << 63; }},
  });
}

TEST_F(InstructionTest, Comparisons) {
  const auto floats = [](auto f) {
    return [f](Bits a, Bits b, Bits) { return Bits(f(asFloat(a), asFloat(b))); };
  };
  check({
      {"setp.lt.s32", "pww", [](Bits a, Bits b, Bits) { return Bits(s32(a) < s32(b)); }},
      {"setp.lt.u32", "pww", [](Bits a, Bits b, Bits) { return Bits(a < b); }},
      {"setp.hs.u32", "pww", [](Bits a, Bits b, Bits) { return Bits(a >= b); }},
      {"setp.eq.b64", "pqq", [](Bits a, Bits b, Bits) { return Bits(a == b); }},
      {"setp.gt.s64", "pqq", [](Bits a, Bits b, Bits) { return Bits(s64(a) > s64(b)); }},
      {"setp.lt.f32", "pff", floats([](float a, float b) { return a < b; })},
      {"setp.eq.f32", "pff", floats([](float a, float b) { return a == b; })},
      {"setp.ne.f32", "pff", floats([](float a, float b) { return a < b || a > b; })},
      {"setp.neu.f32", "pff", floats([](float a, float b) { return a != b; })},
      {"setp.equ.f32", "pff", floats([](float a, float b) { return !(a < b || a > b); })},
      {"setp.ltu.f32", "pff", floats([](float a, float b) { return !(a >= b); })},
      {"setp.gtu.f32", "pff", floats([](float a, float b) { return !(a <= b); })},
      {"setp.num.f32", "pff", floats([](float a, float b) { return a == a && b == b; })},
      {"setp.nan.f32", "pff", floats([](float a, float b) { return a != a || b != b; })},
      {"setp.eq.ftz.f32", "pff", floats([](float a, float b) { return flushed(a) == flushed(b); })},
      {"setp.lt.and.s32", "pwwp", [](Bits a, Bits b, Bits c) { return Bits(s32(a) < s32(b) && c); }},
      {"set.gt.u32.s32", "www", [](Bits a, Bits b, Bits) { return s32(a) > s32(b) ? Bits(0xffffffff) : 0; }},
      {"selp.b32", "wwwp", [](Bits a, Bits b, Bits c) { return c ? a : b; }},
      {"slct.f32.s32", "fffw", [](Bits a, Bits b, Bits c) { return s32(c) >= 0 ? a : b; }},
  });
}

TEST_F(InstructionTest, Conversions) {
  const auto toInteger = [](auto lowest, auto highest, auto round) {
    return [=](Bits a, Bits, Bits) {
      const float x = asFloat(a);
      if (x != x)
        return Bits(0);
      const long double whole = round(static_cast<long double>(x));
      if (whole <= static_cast<long double>(lowest))
        return static_cast<Bits>(lowest);
      return whole >= static_cast<long double>(highest) ? static_cast<Bits>(highest)
                                                        : static_cast<Bits>(static_cast<Wide>(whole));
    };
  };
  const auto truncate = [](long double x) { return std::trunc(x); };
  const auto nearest = [](long double x) { return std::nearbyint(x); };
  const auto down = [](long double x) { return std::floor(x); };
  check({
      {"cvt.rzi.s32.f32", "wf", toInteger(INT32_MIN, INT32_MAX, truncate)},
      {"cvt.rni.s32.f32", "wf", toInteger(INT32_MIN, INT32_MAX, nearest)},
      {"cvt.rmi.s32.f32", "wf", toInteger(INT32_MIN, INT32_MAX, down)},
      {"cvt.rzi.u32.f32", "wf", toInteger(uint32_t(0), UINT32_MAX, truncate)},
      {"cvt.rn.f32.s32", "fw", [](Bits a, Bits, Bits) { return bitsOf(static_cast<float>(s32(a))); }},
      {"cvt.rn.f32.u64", "fq", [](Bits a, Bits, Bits) { return bitsOf(static_cast<float>(a)); }},
      {"cvt.rn.f32.s64", "fq", [](Bits a, Bits, Bits) { return bitsOf(static_cast<float>(s64(a))); }},
      {"cvt.rz.f32.u64", "fq", [](Bits a, Bits, Bits) { return bitsOf(rounded(static_cast<Quad>(a), 'z')); }},
      {"cvt.rn.f64.u64", "dq", [](Bits a, Bits, Bits) { return bitsOf(static_cast<double>(a)); }},
      {"cvt.f64.f32", "df", [](Bits a, Bits, Bits) { return bitsOf(static_cast<double>(asFloat(a))); }},
      {"cvt.rn.f32.f64", "fd", [](Bits a, Bits, Bits) { return bitsOf(static_cast<float>(asDouble(a))); }},
      {"cvt.rm.f32.f64", "fd",
       [](Bits a, Bits, Bits) {
         const double x = asDouble(a);
         if (std::fabs(x) > 3.5e38 && std::isfinite(x)) // beyond the largest float
           return bitsOf(x > 0 ? std::numeric_limits<float>::max() : -std::numeric_limits<float>::infinity());
         return bitsOf(rounded(static_cast<Quad>(x), 'm'));
       }},
      {"cvt.rni.f32.f32", "ff", [](Bits a, Bits, Bits) { return bitsOf(std::nearbyint(asFloat(a))); }},
      {"cvt.rpi.f32.f32", "ff", [](Bits a, Bits, Bits) { return bitsOf(std::ceil(asFloat(a))); }},
      {"cvt.sat.f32.f32", "ff",
       [](Bits a, Bits, Bits) { return bitsOf(asFloat(a) > 0 ? std::fmin(asFloat(a), 1.0f) : 0.0f); }},
      {"cvt.s64.s32", "qw", [](Bits a, Bits, Bits) { return static_cast<Bits>(int64_t(s32(a))); }},
      {"cvt.s32.s8", "ww", [](Bits a, Bits, Bits) { return static_cast<Bits>(int64_t(int8_t(a))); }},
      {"cvt.u32.u8", "ww", [](Bits a, Bits, Bits) { return a & 255; }},
      {"cvt.sat.u8.s32", "ww",
       [](Bits a, Bits, Bits) { return s32(a) < 0     ? 0
                                       : s32(a) > 255 ? Bits(255)
                                                      : a; }},
      // bfloat16: the upper half, to nearest even.
      {"cvt.rn.bf16.f32", "hf",
       [](Bits a, Bits, Bits) {
         return asFloat(a) != asFloat(a) ? Bits(0x7fff) : (a + 0x7fff + (a >> 16 & 1)) >> 16;
       }},
      {"cvt.f32.bf16", "fh", [](Bits a, Bits, Bits) { return bitsOf(asFloat(a << 16)); }},
  });
}

} // namespace
} // namespace sluice::test
