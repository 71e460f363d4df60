// Integer and bit instructions as functions of one lane. Types without a sign in their result are unsigned,
// so that they wrap; signed ones appear where the sign matters.
namespace sluice::cudasim::SLUICE_TARGET {
namespace {

template <typename T> T add(T a, T b) {
  return static_cast<T>(a + b);
}
template <typename T> T subtract(T a, T b) {
  return static_cast<T>(a - b);
}
template <typename T> T multiply(T a, T b) {
  return static_cast<T>(uint64_t(a) * b);
}
template <typename T> T multiplyAdd(T a, T b, T c) {
  return static_cast<T>(uint64_t(a) * b + c);
}

template <typename T> struct Wide;
template <> struct Wide<uint16_t> {
  using Type = uint32_t;
};
template <> struct Wide<int16_t> {
  using Type = int32_t;
};
template <> struct Wide<uint32_t> {
  using Type = uint64_t;
};
template <> struct Wide<int32_t> {
  using Type = int64_t;
};
__extension__ using UnsignedWide128 = unsigned __int128;
__extension__ using SignedWide128 = __int128;
template <> struct Wide<uint64_t> {
  using Type = UnsignedWide128;
};
template <> struct Wide<int64_t> {
  using Type = SignedWide128;
};

template <typename T> typename Wide<T>::Type multiplyWide(T a, T b) {
  return static_cast<typename Wide<T>::Type>(a) * b;
}
template <typename T> typename Wide<T>::Type multiplyAddWide(T a, T b, typename Wide<T>::Type c) {
  using Unsigned = std::make_unsigned_t<typename Wide<T>::Type>;
  return static_cast<typename Wide<T>::Type>(static_cast<Unsigned>(multiplyWide(a, b)) +
                                             static_cast<Unsigned>(c));
}
template <typename T> T multiplyHigh(T a, T b) {
  return static_cast<T>((static_cast<typename Wide<T>::Type>(a) * b) >> (8 * sizeof(T)));
}
template <typename T> T multiplyAddHigh(T a, T b, T c) {
  return static_cast<T>(static_cast<std::make_unsigned_t<T>>(multiplyHigh(a, b)) +
                        static_cast<std::make_unsigned_t<T>>(c));
}
uint32_t multiply24(uint32_t a, uint32_t b) {
  return (a & 0xffffff) * (b & 0xffffff);
}
int32_t addSaturated(int32_t a, int32_t b) {
  return static_cast<int32_t>(std::clamp<int64_t>(int64_t(a) + b, INT32_MIN, INT32_MAX));
}
int32_t subtractSaturated(int32_t a, int32_t b) {
  return static_cast<int32_t>(std::clamp<int64_t>(int64_t(a) - b, INT32_MIN, INT32_MAX));
}

/// Division by zero gives all ones; the smallest number by -1 wraps. PTX leaves both open.
template <typename T> T divide(T a, T b) {
  if (b == 0)
    return static_cast<T>(-1);
  if (std::is_signed_v<T> && b == static_cast<T>(-1))
    return static_cast<T>(std::make_unsigned_t<T>(0) - static_cast<std::make_unsigned_t<T>>(a));
  return static_cast<T>(a / b);
}
template <typename T> T remainder(T a, T b) {
  if (b == 0)
    return a;
  if (std::is_signed_v<T> && b == static_cast<T>(-1))
    return 0;
  return static_cast<T>(a % b);
}
template <typename T> T absolute(T a) {
  using Unsigned = std::make_unsigned_t<T>;
  return a < 0 ? static_cast<T>(Unsigned(0) - static_cast<Unsigned>(a)) : a;
}
template <typename T> T negate(T a) {
  return static_cast<T>(T(0) - a);
}
template <typename T> T least(T a, T b) {
  return b < a ? b : a;
}
template <typename T> T greatest(T a, T b) {
  return a < b ? b : a;
}
template <typename T> std::make_unsigned_t<T> sumOfDifferences(T a, T b, std::make_unsigned_t<T> c) {
  using Unsigned = std::make_unsigned_t<T>;
  const Unsigned difference = a < b ? static_cast<Unsigned>(b) - static_cast<Unsigned>(a)
                                    : static_cast<Unsigned>(a) - static_cast<Unsigned>(b);
  return static_cast<Unsigned>(c + difference);
}

template <typename T> T bitAnd(T a, T b) {
  return a & b;
}
template <typename T> T bitOr(T a, T b) {
  return a | b;
}
template <typename T> T bitXor(T a, T b) {
  return a ^ b;
}
template <typename T> T bitNot(T a) {
  return static_cast<T>(~a);
}
bool predicateAnd(bool a, bool b) {
  return a & b;
}
bool predicateOr(bool a, bool b) {
  return a | b;
}
bool predicateXor(bool a, bool b) {
  return a ^ b;
}
bool predicateNot(bool a) {
  return !a;
}
template <typename T> T logicalNot(T a) {
  return a == 0 ? 1 : 0;
}

/// Shifts by more than the width give zero, or copies of the sign.
template <typename T> T shiftLeft(T a, uint32_t by) {
  return by >= 8 * sizeof(T) ? T(0) : static_cast<T>(a << by);
}
template <typename T> T shiftRight(T a, uint32_t by) {
  constexpr uint32_t kLast = 8 * sizeof(T) - 1;
  if constexpr (std::is_signed_v<T>)
    return static_cast<T>(a >> (by > kLast ? kLast : by));
  else
    return by > kLast ? T(0) : static_cast<T>(a >> by);
}
/// The 64 bits high:low shifted; the upper or lower half of the result.
uint32_t funnelLeftWrap(uint32_t low, uint32_t high, uint32_t by) {
  return static_cast<uint32_t>((uint64_t(high) << 32 | low) << (by & 31) >> 32);
}
uint32_t funnelRightWrap(uint32_t low, uint32_t high, uint32_t by) {
  return static_cast<uint32_t>((uint64_t(high) << 32 | low) >> (by & 31));
}
uint32_t funnelLeftClamp(uint32_t low, uint32_t high, uint32_t by) {
  return by >= 32 ? low : funnelLeftWrap(low, high, by);
}
uint32_t funnelRightClamp(uint32_t low, uint32_t high, uint32_t by) {
  return by >= 32 ? high : funnelRightWrap(low, high, by);
}
/// Each bit of the result is the entry of the 8-bit table that the three bits select.
uint32_t lookup3(uint32_t a, uint32_t b, uint32_t c, uint32_t table) {
  uint32_t result = 0;
  for (uint32_t entry = 0; entry < 8; ++entry) {
    const uint32_t chosen = (entry & 4 ? a : ~a) & (entry & 2 ? b : ~b) & (entry & 1 ? c : ~c);
    result |= table >> entry & 1 ? chosen : 0;
  }
  return result;
}
template <typename T> uint32_t countOnes(T a) {
  return static_cast<uint32_t>(std::popcount(a));
}
template <typename T> uint32_t countLeadingZeros(T a) {
  return static_cast<uint32_t>(std::countl_zero(a));
}
/// Position of the most significant bit that is not a sign bit, all ones when there is none.
template <typename T> uint32_t findHighest(T a) {
  using Unsigned = std::make_unsigned_t<T>;
  const Unsigned bits = static_cast<Unsigned>(a < 0 ? ~a : a);
  return static_cast<uint32_t>(8 * sizeof(T)) - 1u - static_cast<uint32_t>(std::countl_zero(bits));
}
/// How far to shift that bit to the top.
template <typename T> uint32_t findHighestShift(T a) {
  const uint32_t position = findHighest(a);
  return position == ~0u ? position : static_cast<uint32_t>(8 * sizeof(T)) - 1 - position;
}
template <typename T> T reverseBits(T a) {
  T result = 0;
  for (uint32_t bit = 0; bit < 8 * sizeof(T); ++bit)
    result = static_cast<T>(result | (a >> bit & 1) << (8 * sizeof(T) - 1 - bit));
  return result;
}
/// `length` bits from `position` on, filled up with zeros or with the sign, which for a field that reaches
/// beyond the top is the top bit.
template <typename T> T extractField(T a, uint32_t position, uint32_t length) {
  constexpr uint32_t kWidth = 8 * sizeof(T);
  position &= 255;
  length &= 255;
  const auto bitAt = [&](uint32_t at) { return at < kWidth ? static_cast<uint64_t>(a) >> at & 1 : 0; };
  uint64_t sign = 0;
  if (std::is_signed_v<T> && length != 0)
    sign = bitAt(std::min(position + length - 1, kWidth - 1));
  uint64_t result = 0;
  for (uint32_t bit = 0; bit < kWidth; ++bit)
    result |= (bit < length && position + bit < kWidth ? bitAt(position + bit) : sign) << bit;
  return static_cast<T>(result);
}
template <typename T> T insertField(T field, T into, uint32_t position, uint32_t length) {
  constexpr uint32_t kWidth = 8 * sizeof(T);
  position &= 255;
  length &= 255;
  T result = into;
  for (uint32_t bit = 0; bit < length && position + bit < kWidth; ++bit) {
    const T chosen = static_cast<T>(T(1) << (position + bit));
    result = static_cast<T>((result & ~chosen) | (field >> bit & 1 ? chosen : 0));
  }
  return result;
}
/// Each nibble of the selector picks a byte of b:a; its top bit asks for copies of that byte's sign.
uint32_t permuteBytes(uint32_t a, uint32_t b, uint32_t selector) {
  const uint64_t bytes = uint64_t(b) << 32 | a;
  uint32_t result = 0;
  for (uint32_t i = 0; i < 4; ++i) {
    const uint32_t nibble = selector >> (4 * i) & 15;
    uint32_t byte = static_cast<uint32_t>(bytes >> (8 * (nibble & 7)) & 0xff);
    if (nibble & 8)
      byte = byte & 0x80 ? 0xff : 0;
    result |= byte << (8 * i);
  }
  return result;
}
template <typename A, typename B> int32_t dotBytes(uint32_t a, uint32_t b, int32_t c) {
  uint32_t sum = static_cast<uint32_t>(c);
  for (uint32_t i = 0; i < 4; ++i)
    sum += static_cast<uint32_t>(static_cast<A>(a >> (8 * i) & 0xff) * static_cast<B>(b >> (8 * i) & 0xff));
  return static_cast<int32_t>(sum);
}

template <typename Signed> void addRowsOfWidth(InstructionTable &table, const std::string &bits) {
  using Unsigned = std::make_unsigned_t<Signed>;
  for (const std::string &type : {"." + std::string("u") + bits, ".s" + bits}) {
    row<add<Unsigned>>(table, "add" + type);
    row<subtract<Unsigned>>(table, "sub" + type);
    row<multiply<Unsigned>>(table, "mul.lo" + type);
    row<multiplyAdd<Unsigned>>(table, "mad.lo" + type);
  }
  const std::string u = ".u" + bits, s = ".s" + bits, b = ".b" + bits;
  row<multiplyHigh<Unsigned>>(table, "mul.hi" + u);
  row<multiplyHigh<Signed>>(table, "mul.hi" + s);
  row<multiplyAddHigh<Unsigned>>(table, "mad.hi" + u);
  row<multiplyAddHigh<Signed>>(table, "mad.hi" + s);
  row<divide<Unsigned>>(table, "div" + u);
  row<divide<Signed>>(table, "div" + s);
  row<remainder<Unsigned>>(table, "rem" + u);
  row<remainder<Signed>>(table, "rem" + s);
  row<absolute<Signed>>(table, "abs" + s);
  row<negate<Unsigned>>(table, "neg" + s);
  row<least<Unsigned>>(table, "min" + u);
  row<least<Signed>>(table, "min" + s);
  row<greatest<Unsigned>>(table, "max" + u);
  row<greatest<Signed>>(table, "max" + s);
  row<sumOfDifferences<Unsigned>>(table, "sad" + u);
  row<sumOfDifferences<Signed>>(table, "sad" + s);
  row<bitAnd<Unsigned>>(table, "and" + b);
  row<bitOr<Unsigned>>(table, "or" + b);
  row<bitXor<Unsigned>>(table, "xor" + b);
  row<bitNot<Unsigned>>(table, "not" + b);
  row<logicalNot<Unsigned>>(table, "cnot" + b);
  row<shiftLeft<Unsigned>>(table, "shl" + b);
  row<shiftRight<Unsigned>>(table, "shr" + b);
  row<shiftRight<Unsigned>>(table, "shr" + u);
  row<shiftRight<Signed>>(table, "shr" + s);
}

template <typename Signed> void addBitRows(InstructionTable &table, const std::string &bits) {
  using Unsigned = std::make_unsigned_t<Signed>;
  row<countOnes<Unsigned>>(table, "popc.b" + bits);
  row<countLeadingZeros<Unsigned>>(table, "clz.b" + bits);
  row<findHighest<Unsigned>>(table, "bfind.u" + bits);
  row<findHighest<Signed>>(table, "bfind.s" + bits);
  row<findHighestShift<Unsigned>>(table, "bfind.shiftamt.u" + bits);
  row<findHighestShift<Signed>>(table, "bfind.shiftamt.s" + bits);
  row<reverseBits<Unsigned>>(table, "brev.b" + bits);
  row<extractField<Unsigned>>(table, "bfe.u" + bits);
  row<extractField<Signed>>(table, "bfe.s" + bits);
  row<insertField<Unsigned>>(table, "bfi.b" + bits);
}

void addRows(InstructionTable &table) {
  addRowsOfWidth<int16_t>(table, "16");
  addRowsOfWidth<int32_t>(table, "32");
  addRowsOfWidth<int64_t>(table, "64");
  addBitRows<int32_t>(table, "32");
  addBitRows<int64_t>(table, "64");
  row<multiplyWide<uint16_t>>(table, "mul.wide.u16");
  row<multiplyWide<int16_t>>(table, "mul.wide.s16");
  row<multiplyWide<uint32_t>>(table, "mul.wide.u32");
  row<multiplyWide<int32_t>>(table, "mul.wide.s32");
  row<multiplyAddWide<uint16_t>>(table, "mad.wide.u16");
  row<multiplyAddWide<int16_t>>(table, "mad.wide.s16");
  row<multiplyAddWide<uint32_t>>(table, "mad.wide.u32");
  row<multiplyAddWide<int32_t>>(table, "mad.wide.s32");
  row<multiply24>(table, "mul24.lo.u32");
  row<addSaturated>(table, "add.sat.s32");
  row<subtractSaturated>(table, "sub.sat.s32");
  row<predicateAnd>(table, "and.pred");
  row<predicateOr>(table, "or.pred");
  row<predicateXor>(table, "xor.pred");
  row<predicateNot>(table, "not.pred");
  row<funnelLeftWrap>(table, "shf.l.wrap.b32");
  row<funnelRightWrap>(table, "shf.r.wrap.b32");
  row<funnelLeftClamp>(table, "shf.l.clamp.b32");
  row<funnelRightClamp>(table, "shf.r.clamp.b32");
  row<lookup3>(table, "lop3.b32");
  row<permuteBytes>(table, "prmt.b32");
  row<dotBytes<uint8_t, uint8_t>>(table, "dp4a.u32.u32");
  row<dotBytes<int8_t, int8_t>>(table, "dp4a.s32.s32");
}

} // namespace
} // namespace sluice::cudasim::SLUICE_TARGET
