#include "runtime/device/cpu/Kernels.h"
#include "runtime/device/cpu/Mask.h"
#include "runtime/device/cpu/MaskKeys.h"
#include "runtime/support/Philox.h"
#include "runtime/support/SoftDrop.h"

namespace sluice::cpu {
namespace {

constexpr int64_t billion = 1000000000;

/// ceil(count amount / 10^9), at most count.
int64_t portion(int64_t count, int64_t amount) {
  return static_cast<int64_t>(
      std::min<__int128>(count, (static_cast<__int128>(count) * amount + billion - 1) / billion));
}

/// One matrix from weight `first` on. `Candidates` is short where units are weights, long where they are
/// blocks.
template <typename Candidates> class MatrixUpdate {
public:
  /// `firstPlace`: the weight at element 0 of the update's places and age.
  MatrixUpdate(const MaskUpdate &update, int64_t first, int64_t firstPlace, void *room)
      : update(update), pattern(update.shape.pattern), first(first), firstPlace(firstPlace),
        bits(update.mask.as<uint8_t>()), candidates(room), amount(*update.amount.as<int64_t>()) {}

  void run() {
    if (update.prunes) {
      prune();
      return;
    }
    if (update.isSigned) {
      dropSmallest([](float w) { return w < 0; });
      dropSmallest([](float w) { return !(w < 0); });
    } else {
      dropSmallest([](float) { return true; });
    }
    grow();
  }

private:
  static constexpr bool isBlocks = Candidates::bytes == 16;

  const float *weight() const { return update.places[0].f32() + (first - firstPlace); }
  int64_t firstWeight(int64_t unit) const { return isBlocks ? pattern.firstWeight(unit) : unit; }
  bool kept(int64_t unit) const { return isKept(bits, first + firstWeight(unit)); }
  int64_t units() const { return pattern.units(); }
  /// Units of a group: of a matrix, or of one group of an n:m pattern.
  int64_t groupUnits() const { return update.groupUnits(); }

  /// |x| of a weight, the sum of squares of a block.
  auto magnitude(const float *x, int64_t unit) const {
    if constexpr (!isBlocks) {
      return x[unit];
    } else {
      double sum = 0; // squares of float32 are exact in double, so no compiler's contraction changes a bit
      const float *corner = x + firstWeight(unit);
      for (int64_t row = 0; row < pattern.blockRows; ++row)
        for (int64_t column = 0; column < pattern.blockColumns; ++column) {
          const double value = corner[row * pattern.columns + column];
          sum += value * value;
        }
      return sum;
    }
  }

  uint64_t dropKey(const PhiloxStream &draws, int64_t unit) const {
    const auto size = magnitude(weight(), unit);
    if (!update.isSoft)
      return magnitudeKey(size);
    const double square = isBlocks ? size : static_cast<double>(size) * size;
    return softDropKey(square, draws.bits(static_cast<uint64_t>(first + firstWeight(unit))));
  }

  uint64_t growKey(const PhiloxStream &draws, int64_t unit) const {
    const auto draw = [&] { return draws.bits(static_cast<uint64_t>(first + firstWeight(unit))); };
    if (!update.gradient.data)
      return draw();
    const auto size = magnitude(update.gradient.f32() + first, unit);
    return descendingKey(size, size == 0 ? draw() : 0);
  }

  /// Zeroes what belongs to the unit, whether it leaves or starts.
  void set(int64_t unit, bool keep, float age) {
    const int64_t corner = first + firstWeight(unit);
    for (int64_t row = 0; row < pattern.blockRows; ++row)
      for (int64_t column = 0; column < pattern.blockColumns; ++column) {
        const int64_t at = corner + row * pattern.columns + column;
        setKept(bits, at, keep);
        for (const Tensor &place : update.places)
          place.f32()[at - firstPlace] = 0;
        if (update.age.data)
          update.age.f32()[at - firstPlace] = age;
      }
  }
  void drop(int64_t count) {
    candidates.select(count);
    for (int64_t k = 0; k < count; ++k)
      set(candidates.unit(k), false, 0);
  }

  template <typename Wanted> void dropSmallest(Wanted wanted) {
    const PhiloxStream draws(seed(), update.dropStream, step());
    candidates.clear();
    for (int64_t unit = 0; unit < units(); ++unit)
      if (kept(unit) && (isBlocks || wanted(weight()[unit])))
        candidates.add(dropKey(draws, unit), unit);
    drop(portion(candidates.size(), amount));
  }

  /// Gradual pruning: every group keeps as many as its share of the way to the target allows.
  void prune() {
    const int64_t most = pattern.keep, least = update.targetUnits();
    const auto stay = static_cast<int64_t>(most - static_cast<__int128>(most - least) * amount / billion);
    for (int64_t begin = 0; begin < units(); begin += groupUnits()) {
      candidates.clear();
      for (int64_t unit = begin; unit < begin + groupUnits(); ++unit)
        if (kept(unit))
          candidates.add(magnitudeKey(magnitude(weight(), unit)), unit);
      drop(std::clamp<int64_t>(candidates.size() - stay, 0, candidates.size()));
    }
  }

  /// Every group gets back to its number of kept units.
  void grow() {
    const PhiloxStream draws(seed(), update.stream, step());
    for (int64_t begin = 0; begin < units(); begin += groupUnits()) {
      candidates.clear();
      for (int64_t unit = begin; unit < begin + groupUnits(); ++unit)
        if (!kept(unit))
          candidates.add(growKey(draws, unit), unit);
      const int64_t free = candidates.size(),
                    count = std::clamp<int64_t>(pattern.keep - (groupUnits() - free), 0, free);
      candidates.select(count);
      for (int64_t k = 0; k < count; ++k)
        set(candidates.unit(k), true, update.restart);
    }
  }

  uint64_t seed() const { return static_cast<uint64_t>(*update.seed.as<int64_t>()); }
  uint64_t step() const { return static_cast<uint64_t>(*update.step.as<int64_t>()); }

  const MaskUpdate &update;
  const MaskPattern &pattern;
  int64_t first, firstPlace;
  uint8_t *bits;
  Candidates candidates;
  int64_t amount;
};

template <typename Candidates> void updateMatrices(const MaskUpdate &update, void *room) {
  for (int64_t matrix = 0; matrix < update.shape.matrices; ++matrix)
    MatrixUpdate<Candidates>(update, matrix * update.shape.pattern.size(), 0, room).run();
}

/// Weights, moments and age of one matrix after the other, spread out in `room`, updated there, and gathered
/// under the new mask.
template <typename Candidates> void updateKeptForm(const MaskUpdate &update, float *room, void *candidates) {
  const int64_t size = update.shape.pattern.size(), kept = update.shape.pattern.kept;
  const auto *bits = update.mask.as<uint8_t>();
  const Tensor *stored[] = {&update.places[0], &update.places[1], &update.places[2], &update.age};
  const int count = update.age.data ? 4 : 3;
  MaskUpdate whole = update;
  Tensor *spread[] = {&whole.places[0], &whole.places[1], &whole.places[2], &whole.age};
  for (int k = 0; k < count; ++k) {
    spread[k]->data = reinterpret_cast<std::byte *>(room + k * size);
    spread[k]->elements = size;
  }
  for (int64_t matrix = 0; matrix < update.shape.matrices; ++matrix) {
    const int64_t first = matrix * size;
    for (int k = 0; k < count; ++k) {
      float *target = spread[k]->f32();
      const float *source = stored[k]->f32() + matrix * kept, *end = source + kept;
      std::fill_n(target, size, 0.0f);
      forEachKept(bits, first, first + size,
                  [&](int64_t i) { target[i - first] = source < end ? *source++ : 0.0f; });
    }
    MatrixUpdate<Candidates>(whole, first, first, candidates).run();
    for (int k = 0; k < count; ++k) {
      float *target = stored[k]->f32() + matrix * kept, *end = target + kept;
      const float *source = spread[k]->f32();
      forEachKept(bits, first, first + size, [&](int64_t i) {
        if (target < end)
          *target++ = source[i - first];
      });
    }
  }
}

template <typename Candidates> void addStage(PreparedKernel &kernel, const MaskUpdate &update) {
  const MaskPattern &pattern = update.shape.pattern;
  const uint64_t wholeBytes = update.keptForm ? floatBytes(4 * pattern.size()) : 0;
  kernel.workspaceBytes = wholeBytes + static_cast<uint64_t>(pattern.units() * Candidates::bytes);
  // One tile: matrices may share a byte of the mask. Parallel is the other masks' updates.
  kernel.stages.push_back({1, [=](const Tile &tile) {
                             std::byte *candidates = tile.workspace + wholeBytes;
                             if (update.keptForm)
                               updateKeptForm<Candidates>(update, reinterpret_cast<float *>(tile.workspace),
                                                          candidates);
                             else
                               updateMatrices<Candidates>(update, candidates);
                           }});
}

} // namespace

StatusOr<PreparedKernel> prepareUpdateMask(PrepareContext &context) {
  Arguments arguments(context);
  SLUICE_ASSIGN_OR_RETURN(const MaskUpdate update, maskUpdate(arguments));
  PreparedKernel kernel;
  if (update.shape.pattern.isBlocks())
    addStage<LongCandidates>(kernel, update);
  else
    addStage<ShortCandidates>(kernel, update);
  return kernel;
}

} // namespace sluice::cpu
