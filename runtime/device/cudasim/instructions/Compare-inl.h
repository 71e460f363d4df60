// Comparisons and selections as functions of one lane.
namespace sluice::cudasim::SLUICE_TARGET {
namespace {

template <typename T> bool equal(T a, T b) {
  return a == b;
}
template <typename T> bool notEqual(T a, T b) {
  return a != b;
}
template <typename T> bool less(T a, T b) {
  return a < b;
}
template <typename T> bool lessEqual(T a, T b) {
  return a <= b;
}
template <typename T> bool greater(T a, T b) {
  return a > b;
}
template <typename T> bool greaterEqual(T a, T b) {
  return a >= b;
}

/// Denormals count as zero with ftz.
template <typename T, bool Flush> T operand(T value) {
  if constexpr (Flush)
    return std::bit_cast<T>((std::bit_cast<uint32_t>(value) & 0x7f800000) == 0
                                ? std::bit_cast<uint32_t>(value) & 0x80000000
                                : std::bit_cast<uint32_t>(value));
  return value;
}
template <typename T, bool F> bool isUnordered(T a, T b) {
  return a != a || b != b;
}
template <typename T, bool F> bool isOrdered(T a, T b) {
  return a == a && b == b;
}
template <typename T, bool F> bool orderedEqual(T a, T b) {
  return operand<T, F>(a) == operand<T, F>(b);
}
/// "ne" of PTX is false when an operand is NaN; "neu" is C's "!=".
template <typename T, bool F> bool orderedNotEqual(T a, T b) {
  return a == a && b == b && operand<T, F>(a) != operand<T, F>(b);
}
template <typename T, bool F> bool orderedLess(T a, T b) {
  return operand<T, F>(a) < operand<T, F>(b);
}
template <typename T, bool F> bool orderedLessEqual(T a, T b) {
  return operand<T, F>(a) <= operand<T, F>(b);
}
template <typename T, bool F> bool orderedGreater(T a, T b) {
  return operand<T, F>(a) > operand<T, F>(b);
}
template <typename T, bool F> bool orderedGreaterEqual(T a, T b) {
  return operand<T, F>(a) >= operand<T, F>(b);
}
template <typename T, bool F> bool unorderedEqual(T a, T b) {
  return !orderedNotEqual<T, F>(a, b);
}
template <typename T, bool F> bool unorderedNotEqual(T a, T b) {
  return operand<T, F>(a) != operand<T, F>(b);
}
template <typename T, bool F> bool unorderedLess(T a, T b) {
  return !orderedGreaterEqual<T, F>(a, b);
}
template <typename T, bool F> bool unorderedLessEqual(T a, T b) {
  return !orderedGreater<T, F>(a, b);
}
template <typename T, bool F> bool unorderedGreater(T a, T b) {
  return !orderedLessEqual<T, F>(a, b);
}
template <typename T, bool F> bool unorderedGreaterEqual(T a, T b) {
  return !orderedLess<T, F>(a, b);
}

template <typename T> T select(T a, T b, bool first) {
  return first ? a : b;
}
template <typename T> T selectBySign(T a, T b, int32_t sign) {
  return sign >= 0 ? a : b;
}
template <typename T> T selectByFloat(T a, T b, float sign) {
  return sign >= 0 ? a : b;
}

/// Windows of generic addresses, see memory/AddressMap.h.
bool isShared(uint64_t address) {
  return address - (uint64_t(1) << 49) < (uint64_t(1) << 32);
}
bool isLocal(uint64_t address) {
  return address - (uint64_t(1) << 49) - (uint64_t(1) << 32) < (uint64_t(1) << 32);
}
bool isGlobal(uint64_t address) {
  return address >= uint64_t(1) << 48 && address < uint64_t(1) << 49;
}

template <typename Signed> void addIntegerComparisons(InstructionTable &table, const std::string &bits) {
  using Unsigned = std::make_unsigned_t<Signed>;
  for (const char *type : {".b", ".u", ".s"}) {
    row<equal<Unsigned>>(table, "setp.eq" + (type + bits));
    row<notEqual<Unsigned>>(table, "setp.ne" + (type + bits));
  }
  const std::string u = ".u" + bits, s = ".s" + bits;
  for (const auto &[lt, le, gt, ge] :
       {std::array<const char *, 4>{"lt", "le", "gt", "ge"}, {"lo", "ls", "hi", "hs"}}) {
    row<less<Unsigned>>(table, std::string("setp.") + lt + u);
    row<lessEqual<Unsigned>>(table, std::string("setp.") + le + u);
    row<greater<Unsigned>>(table, std::string("setp.") + gt + u);
    row<greaterEqual<Unsigned>>(table, std::string("setp.") + ge + u);
  }
  row<less<Signed>>(table, "setp.lt" + s);
  row<lessEqual<Signed>>(table, "setp.le" + s);
  row<greater<Signed>>(table, "setp.gt" + s);
  row<greaterEqual<Signed>>(table, "setp.ge" + s);
  for (const char *type : {".b", ".u", ".s"})
    row<select<Unsigned>>(table, "selp" + (type + bits));
}

template <typename T, bool F> void addFloatComparisons(InstructionTable &table, const std::string &type) {
  const std::string suffix = (F ? ".ftz" : "") + type;
  row<orderedEqual<T, F>>(table, "setp.eq" + suffix);
  row<orderedNotEqual<T, F>>(table, "setp.ne" + suffix);
  row<orderedLess<T, F>>(table, "setp.lt" + suffix);
  row<orderedLessEqual<T, F>>(table, "setp.le" + suffix);
  row<orderedGreater<T, F>>(table, "setp.gt" + suffix);
  row<orderedGreaterEqual<T, F>>(table, "setp.ge" + suffix);
  row<unorderedEqual<T, F>>(table, "setp.equ" + suffix);
  row<unorderedNotEqual<T, F>>(table, "setp.neu" + suffix);
  row<unorderedLess<T, F>>(table, "setp.ltu" + suffix);
  row<unorderedLessEqual<T, F>>(table, "setp.leu" + suffix);
  row<unorderedGreater<T, F>>(table, "setp.gtu" + suffix);
  row<unorderedGreaterEqual<T, F>>(table, "setp.geu" + suffix);
  row<isOrdered<T, F>>(table, "setp.num" + suffix);
  row<isUnordered<T, F>>(table, "setp.nan" + suffix);
}

void addRows(InstructionTable &table) {
  addIntegerComparisons<int16_t>(table, "16");
  addIntegerComparisons<int32_t>(table, "32");
  addIntegerComparisons<int64_t>(table, "64");
  addFloatComparisons<float, false>(table, ".f32");
  addFloatComparisons<float, true>(table, ".f32");
  addFloatComparisons<double, false>(table, ".f64");
  row<select<float>>(table, "selp.f32");
  row<select<double>>(table, "selp.f64");
  row<selectBySign<uint32_t>>(table, "slct.b32.s32");
  row<selectBySign<uint32_t>>(table, "slct.u32.s32");
  row<selectBySign<uint32_t>>(table, "slct.s32.s32");
  row<selectBySign<float>>(table, "slct.f32.s32");
  row<selectByFloat<float>>(table, "slct.f32.f32");
  row<isShared>(table, "isspacep.shared");
  row<isLocal>(table, "isspacep.local");
  row<isGlobal>(table, "isspacep.global");
}

} // namespace
} // namespace sluice::cudasim::SLUICE_TARGET
