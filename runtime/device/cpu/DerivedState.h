// Copies of parameters in layouts that the products prefer: made at prepare, written anew when parameters
// change.
#pragma once

#include "runtime/device/cpu/Memory.h"
#include "runtime/device/cpu/Product.h"

namespace sluice::cpu {

/// A packed copy of one parameter for one tiled product.
struct PackedParameter {
  std::shared_ptr<const TiledProduct> product;
  const float *source;
  HostBlock copy;

  const float *data() const { return reinterpret_cast<const float *>(copy.data()); }
};

/// All packed copies of a device. Programs own them; this list forgets those whose programs are gone.
class DerivedState {
public:
  /// A packed copy of `source` for `product`, allocated but not yet written; null when B is used in place.
  StatusOr<std::shared_ptr<PackedParameter>> add(std::shared_ptr<const TiledProduct> product,
                                                 const float *source);
  /// The number of blocks to refresh.
  int64_t tiles() const;
  /// Writes one block from its parameter.
  void refresh(int64_t tile, int worker) const;

private:
  std::vector<std::weak_ptr<PackedParameter>> parameters;
};

} // namespace sluice::cpu
