// Makes handlers from plain functions of one lane: add32(a, b) becomes a loop over the 32 lanes of three
// rows. Included once for each target by ForEachTarget-inl.h; everything is local to the including file.
namespace sluice::cudasim::SLUICE_TARGET {
namespace {

/// A source row; bool stands for a predicate.
template <typename T> struct Source {
  const T *values;
  Source(Warp &warp, uint32_t row) : values(warp.row<T>(row)) {}
  T operator[](uint32_t lane) const { return values[lane]; }
};
template <> struct Source<bool> {
  uint32_t bits;
  Source(Warp &warp, uint32_t row) : bits(warp.predicate(row)) {}
  bool operator[](uint32_t lane) const { return bits >> lane & 1; }
};

template <typename T> constexpr char signatureOf() {
  if constexpr (std::is_same_v<T, bool>)
    return 'p';
  else if constexpr (std::is_same_v<T, float>)
    return 'f';
  else if constexpr (std::is_same_v<T, double>)
    return 'd';
  else
    return sizeof(T) == 2 ? 'h' : sizeof(T) == 4 ? 'w' : 'q';
}

template <auto Function, typename Type> struct Mapped;

/// Handler and signature of `Function`, a function of one lane.
template <auto Function, typename Result, typename... Arguments>
struct Mapped<Function, Result (*)(Arguments...)> {
  template <size_t... I>
  static void runIndexed(Warp &warp, const Op &op, uint32_t mask, std::index_sequence<I...>) {
    const std::tuple<Source<Arguments>...> sources(Source<Arguments>(warp, op.rows[I + 1])...);
    if constexpr (std::is_same_v<Result, bool>) {
      uint32_t bits = 0;
      for (uint32_t lane = 0; lane < kLanes; ++lane)
        bits |= static_cast<uint32_t>(Function(std::get<I>(sources)[lane]...)) << lane;
      uint32_t &result = warp.predicate(op.rows[0]);
      result = (result & ~mask) | (bits & mask);
    } else {
      // Into an array first: it shares memory with no source, so the compiler may vectorise.
      Result values[kLanes];
      for (uint32_t lane = 0; lane < kLanes; ++lane)
        values[lane] = Function(std::get<I>(sources)[lane]...);
      Result *result = warp.row<Result>(op.rows[0]);
      if (mask == kAllLanes)
        std::memcpy(result, values, sizeof(values));
      else
        for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
          const int lane = std::countr_zero(rest);
          result[lane] = values[lane];
        }
    }
  }
  static void run(Warp &warp, const Op &op, uint32_t mask) {
    runIndexed(warp, op, mask, std::make_index_sequence<sizeof...(Arguments)>());
  }
  static std::string signature() { return {signatureOf<Result>(), signatureOf<Arguments>()...}; }
};

/// One row of the table: PTX's name and the function of one lane.
template <auto Function> void row(InstructionTable &table, const std::string &name) {
  using Map = Mapped<Function, decltype(Function)>;
  table.addPlain(name, PlainRow{Map::signature(), &Map::run});
}

} // namespace
} // namespace sluice::cudasim::SLUICE_TARGET
