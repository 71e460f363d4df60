#include "runtime/device/cpu/DerivedState.h"

#include <algorithm>

namespace sluice::cpu {

void PackedParameter::refresh(int64_t tile, int worker) {
  product->pack(tile, worker, source, reinterpret_cast<float *>(copy.data()));
}

SparseWeight::SparseWeight(const MaskedMatrix &source)
    : from(source), entries(source.outputs, source.inputs, source.most, source.height) {
  builtFor.reserve(static_cast<size_t>(source.outputs * source.inputs + 63) / 64 + 1);
}

void SparseWeight::refresh(int64_t, int) {
  // A word at either end may hold bits of a neighbour too; a change there builds once more than needed.
  const int64_t last = from.first + from.outputs * from.inputs;
  const uint64_t *begin = from.mask + from.first / 64, *end = from.mask + (last + 63) / 64;
  if (builtFor.empty() || !std::equal(builtFor.begin(), builtFor.end(), begin)) {
    builtFor.assign(begin, end);
    int64_t kept = 0;
    for (int64_t bit = from.first; bit < last; ++bit)
      kept += static_cast<int64_t>(from.mask[bit / 64] >> (bit % 64) & 1);
    hasRoom = kept <= from.most;
    if (hasRoom)
      entries.build(from.mask, from.first, from.transposed);
    else
      entries.clear();
    if (from.keptForm)
      entries.useKeptForm(from.mask, from.first);
  }
  if (from.weight)
    entries.refresh(from.weight);
}

StatusOr<std::shared_ptr<PackedParameter>> DerivedState::add(std::shared_ptr<const TiledProduct> product,
                                                             const float *source) {
  if (product->packedBytes() == 0)
    return std::shared_ptr<PackedParameter>();
  SLUICE_ASSIGN_OR_RETURN(HostBlock copy, HostBlock::allocate(product->packedBytes()));
  auto parameter = std::make_shared<PackedParameter>(std::move(product), source, std::move(copy));
  add(parameter);
  return parameter;
}

std::shared_ptr<const SparseWeight> DerivedState::addSparse(const MaskedMatrix &source) {
  for (const auto &copy : copies)
    if (auto known = std::dynamic_pointer_cast<SparseWeight>(copy.lock())) {
      MaskedMatrix wanted = source;
      if (!wanted.weight)
        wanted.weight = known->source().weight;
      if (known->source() == wanted)
        return known;
    }
  auto sparse = std::make_shared<SparseWeight>(source);
  add(sparse);
  return sparse;
}

void DerivedState::add(const std::shared_ptr<DerivedCopy> &copy) {
  std::erase_if(copies, [](const auto &known) { return known.expired(); });
  copies.push_back(copy);
}

int64_t DerivedState::tiles() const {
  int64_t count = 0;
  for (const auto &copy : copies)
    if (auto live = copy.lock())
      count += live->tiles();
  return count;
}

void DerivedState::refresh(int64_t tile, int worker) const {
  for (const auto &copy : copies) {
    auto live = copy.lock();
    if (!live)
      continue;
    if (tile < live->tiles())
      return live->refresh(tile, worker);
    tile -= live->tiles();
  }
}

} // namespace sluice::cpu
