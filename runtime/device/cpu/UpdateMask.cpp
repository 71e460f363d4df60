#include "runtime/device/cpu/Kernels.h"
#include "runtime/device/cpu/Mask.h"
#include "runtime/support/Philox.h"

namespace sluice::cpu {
namespace {

constexpr int64_t billion = 1000000000;

/// The places and settings of one update; docs/dialects/sluice.md (update_mask) says what it does.
struct Update {
  Tensor mask, places[3], age, gradient, seed, step, amount; // places: weight, exp_avg, exp_avg_sq
  uint64_t stream;
  bool isSigned, prunes; // prunes: gradual, nothing grows
  int64_t size, kept, target;
  float restart;
};

/// Bits of |x|, which order as the numbers do; NaN as infinity.
uint32_t magnitudeKey(float x) {
  return std::min(std::bit_cast<uint32_t>(x) & 0x7fffffffu, 0x7f800000u);
}
/// The other way round: large magnitudes first, NaN last.
uint32_t descendingKey(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x) & 0x7fffffffu;
  return bits > 0x7f800000u ? ~uint32_t{0} : 0x7f800000u - bits;
}

/// ceil(count amount / 10^9), at most count.
int64_t portion(int64_t count, int64_t amount) {
  return static_cast<int64_t>(
      std::min<__int128>(count, (static_cast<__int128>(count) * amount + billion - 1) / billion));
}

/// One matrix from weight `first` on; `candidates` has room for as many as the matrix has weights.
class MatrixUpdate {
public:
  MatrixUpdate(const Update &update, int64_t first, uint64_t *candidates)
      : update(update), first(first), bits(update.mask.as<uint8_t>()), candidates(candidates),
        amount(*update.amount.as<int64_t>()) {}

  void run() {
    if (update.isSigned && !update.prunes) {
      dropSmallest([](float w) { return w < 0; });
      dropSmallest([](float w) { return !(w < 0); });
    } else {
      dropSmallest([](float) { return true; });
    }
    if (!update.prunes)
      grow();
  }

private:
  float *weight() const { return update.places[0].f32() + first; }
  bool kept(int64_t i) const { return isKept(bits, first + i); }

  /// Zeroes what belongs to the weight, whether it leaves or starts.
  void set(int64_t i, bool keep, float age) {
    setKept(bits, first + i, keep);
    for (const Tensor &place : update.places)
      place.f32()[first + i] = 0;
    if (update.age.data)
      update.age.f32()[first + i] = age;
  }

  template <typename Wanted> void dropSmallest(Wanted wanted) {
    int64_t total = 0;
    for (int64_t i = 0; i < update.size; ++i)
      if (kept(i) && wanted(weight()[i]))
        candidates[total++] = candidate(magnitudeKey(weight()[i]), i);
    int64_t count = portion(total, amount);
    if (update.prunes) {
      const auto stay = static_cast<int64_t>(
          update.kept - static_cast<__int128>(update.kept - update.target) * amount / billion);
      count = std::clamp<int64_t>(total - stay, 0, total);
    }
    selectSmallest(candidates, count, total);
    for (int64_t k = 0; k < count; ++k)
      set(candidateIndex(candidates[k]), false, 0);
  }

  void grow() {
    const PhiloxStream stream(static_cast<uint64_t>(*update.seed.as<int64_t>()), update.stream,
                              static_cast<uint64_t>(*update.step.as<int64_t>()));
    int64_t total = 0;
    for (int64_t i = 0; i < update.size; ++i)
      if (!kept(i))
        candidates[total++] = candidate(update.gradient.data ? descendingKey(update.gradient.f32()[first + i])
                                                             : stream.bits(static_cast<uint64_t>(first + i)),
                                        i);
    const int64_t count = std::clamp<int64_t>(update.kept - (update.size - total), 0, total);
    selectSmallest(candidates, count, total);
    for (int64_t k = 0; k < count; ++k)
      set(candidateIndex(candidates[k]), true, update.restart);
  }

  const Update &update;
  int64_t first;
  uint8_t *bits;
  uint64_t *candidates;
  int64_t amount;
};

} // namespace

StatusOr<PreparedKernel> prepareUpdateMask(PrepareContext &context) {
  Arguments arguments(context);
  arguments.inputs(7, 9);
  const bool hasAge = arguments.flag("has_age");
  arguments.outputs(hasAge ? 5 : 4);
  Update update;
  const int64_t matrices = arguments.integer("matrices", 1, int64_t{1} << 31);
  SLUICE_RETURN_IF_ERROR(arguments.status());
  for (size_t k = 0; k < 3; ++k) {
    update.places[k] = arguments.input(1 + k);
    arguments.require(update.places[k].elements == update.places[0].elements &&
                          arguments.output(1 + k).data == update.places[k].data,
                      "weight, exp_avg and exp_avg_sq are of one size and updated in place");
  }
  const int64_t weights = update.places[0].elements;
  arguments.require(weights % matrices == 0 && weights / matrices < int64_t{1} << 31,
                    "the weights must be `matrices` times at most 2^31");
  SLUICE_RETURN_IF_ERROR(arguments.status());
  update.size = weights / matrices;
  update.mask = maskInput(arguments, 0, weights);
  arguments.require(arguments.output(0, ElementType::U8).data == update.mask.data,
                    "the mask is updated in place");
  for (auto [index, place] :
       {std::pair<size_t, Tensor *>{4, &update.seed}, {5, &update.step}, {6, &update.amount}}) {
    *place = arguments.input(index, ElementType::I64);
    arguments.elements(*place, 1, "seed, step and amount");
  }
  size_t next = 7;
  if (hasAge) {
    update.age = arguments.input(next++);
    arguments.elements(update.age, weights, "age");
    arguments.require(arguments.output(4).data == update.age.data, "age is updated in place");
  }
  const std::string drop = arguments.text("drop"), grow = arguments.text("grow");
  arguments.require(drop == "magnitude" || drop == "signed", "drop must be magnitude or signed");
  arguments.require(grow == "random" || grow == "gradient" || grow == "none",
                    "grow must be random, gradient or none");
  arguments.require(arguments.inputCount() == next + (grow == "gradient" ? 1 : 0),
                    "growth by gradient takes a dense gradient, and no other growth does");
  if (grow == "gradient") {
    update.gradient = arguments.input(next);
    arguments.elements(update.gradient, weights, "dense_gradient");
  }
  update.stream = streamKey(arguments.text("stream"));
  update.isSigned = drop == "signed", update.prunes = grow == "none";
  update.kept = arguments.integer("kept", 1, update.size);
  update.target = arguments.integer("target", 1, update.size);
  update.restart = static_cast<float>(arguments.number("restart"));
  arguments.require(update.target <= update.kept, "target must not be larger than kept");
  SLUICE_RETURN_IF_ERROR(arguments.status());

  PreparedKernel kernel;
  kernel.workspaceBytes = static_cast<uint64_t>(update.size) * 8;
  // One tile: matrices may share a byte of the mask. Parallel is the other masks' updates.
  kernel.stages.push_back(
      {1, [=](const Tile &tile) {
         for (int64_t matrix = 0; matrix < matrices; ++matrix)
           MatrixUpdate(update, matrix * update.size, reinterpret_cast<uint64_t *>(tile.workspace)).run();
       }});
  return kernel;
}

} // namespace sluice::cpu
