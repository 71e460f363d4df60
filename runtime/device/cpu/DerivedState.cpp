#include "runtime/device/cpu/DerivedState.h"

namespace sluice::cpu {

StatusOr<std::shared_ptr<PackedParameter>> DerivedState::add(std::shared_ptr<const TiledProduct> product,
                                                             const float *source) {
  if (product->packedBytes() == 0)
    return std::shared_ptr<PackedParameter>();
  std::erase_if(parameters, [](const auto &parameter) { return parameter.expired(); });
  SLUICE_ASSIGN_OR_RETURN(HostBlock copy, HostBlock::allocate(product->packedBytes()));
  auto parameter = std::make_shared<PackedParameter>(std::move(product), source, std::move(copy));
  parameters.push_back(parameter);
  return parameter;
}

int64_t DerivedState::tiles() const {
  int64_t count = 0;
  for (const auto &parameter : parameters)
    if (auto live = parameter.lock())
      count += live->product->packTiles();
  return count;
}

void DerivedState::refresh(int64_t tile, int worker) const {
  for (const auto &parameter : parameters) {
    auto live = parameter.lock();
    if (!live)
      continue;
    if (tile < live->product->packTiles())
      return live->product->pack(tile, worker, live->source, reinterpret_cast<float *>(live->copy.data()));
    tile -= live->product->packTiles();
  }
}

} // namespace sluice::cpu
