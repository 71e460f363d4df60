// Copies of parameters in layouts that the products prefer: made at prepare, written anew when parameters
// change.
#pragma once

#include "runtime/device/cpu/Memory.h"
#include "runtime/device/cpu/Product.h"
#include "runtime/device/cpu/SparseMatrix.h"

namespace sluice::cpu {

/// One copy, written tile by tile; any thread may write any tile.
class DerivedCopy {
public:
  virtual ~DerivedCopy() = default;
  virtual int64_t tiles() const = 0;
  /// Writes a tile from its parameter.
  virtual void refresh(int64_t tile, int worker) = 0;
};

/// A packed copy of one parameter for one tiled product.
class PackedParameter final : public DerivedCopy {
public:
  /// `copy` has room for product->packedBytes().
  PackedParameter(std::shared_ptr<const TiledProduct> product, const float *source, HostBlock copy)
      : product(std::move(product)), source(source), copy(std::move(copy)) {}
  const float *data() const { return reinterpret_cast<const float *>(copy.data()); }
  int64_t tiles() const override { return product->packTiles(); }
  void refresh(int64_t tile, int worker) override;

private:
  std::shared_ptr<const TiledProduct> product;
  const float *source;
  HostBlock copy;
};

/// Where a masked matrix lies: `mask`, `first` and `weight` as SparseMatrix::build and refresh take them.
/// Without a weight the entries have places and no values.
struct MaskedMatrix {
  int64_t outputs, inputs;
  int64_t most; // kept weights for which the entries have room
  const uint64_t *mask;
  int64_t first; // bit of the mask
  const float *weight;
  bool transposed;
  bool keptForm = false; // the weight holds its kept values alone
  int64_t height = 1;    // of the entries: above 1 where the mask keeps blocks

  bool operator==(const MaskedMatrix &) const = default;
};

/// The kept weights of one masked matrix: its entries anew where the mask has changed, else its values.
class SparseWeight final : public DerivedCopy {
public:
  explicit SparseWeight(const MaskedMatrix &source);
  const MaskedMatrix &source() const { return from; }
  /// Empty while the mask keeps more weights than there is room for.
  const SparseMatrix &matrix() const { return entries; }
  /// Whether the mask keeps no more weights than there is room for.
  bool fits() const { return hasRoom; }
  int64_t tiles() const override { return 1; }
  void refresh(int64_t tile, int worker) override;

private:
  MaskedMatrix from;
  SparseMatrix entries;
  std::vector<uint64_t> builtFor; // the words of the mask that the entries are of; empty: none yet
  bool hasRoom = false;
};

/// All copies of a device. Programs own them; this list forgets those whose programs are gone.
class DerivedState {
public:
  /// A packed copy of `source` for `product`, allocated but not yet written; null when B is used in place.
  StatusOr<std::shared_ptr<PackedParameter>> add(std::shared_ptr<const TiledProduct> product,
                                                 const float *source);
  /// The entries of `source`, not yet written. Commands of the same matrix share them; a command that needs
  /// no values may get a matrix that has them.
  std::shared_ptr<const SparseWeight> addSparse(const MaskedMatrix &source);
  /// The number of tiles to refresh.
  int64_t tiles() const;
  /// Writes one of them from its parameter.
  void refresh(int64_t tile, int worker) const;

private:
  void add(const std::shared_ptr<DerivedCopy> &copy);
  std::vector<std::weak_ptr<DerivedCopy>> copies;
};

} // namespace sluice::cpu
