#include "runtime/device/cpu/Product.h"

#include "runtime/abi/Tiles.h"
#include "runtime/device/cpu/SimdGemm.h"

#include <dlfcn.h>
#include <dnnl.hpp>

namespace sluice::cpu {
namespace {

using Dims = dnnl::memory::dims;

std::atomic<bool> productFailed{false};

/// Our tiles are the parallelism; a library that opened its own threads inside a tile would fight them.
void keepLibrarySingleThreaded() {
  thread_local bool done = false;
  if (done)
    return;
  done = true;
  using SetThreads = void (*)(int);
  if (auto set = reinterpret_cast<SetThreads>(dlsym(RTLD_DEFAULT, "omp_set_num_threads")))
    set(1);
}

const dnnl::engine &cpuEngine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

dnnl::memory::desc plainDesc(int64_t rows, int64_t columns, int64_t leading, bool transposed) {
  return {{rows, columns}, dnnl::memory::data_type::f32, transposed ? Dims{1, leading} : Dims{leading, 1}};
}

class DnnlProduct final : public Product {
public:
  DnnlProduct(const ProductShape &shape, int workers) {
    keepLibrarySingleThreaded();
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    if (shape.accumulate) {
      dnnl::post_ops sum;
      sum.append_sum(1.0f);
      attributes.set_post_ops(sum);
    }
    const auto a = plainDesc(shape.rows, shape.depth, shape.leadingA, shape.transposeA);
    const auto b = plainDesc(shape.depth, shape.columns, shape.leadingB, shape.transposeB);
    const auto c = plainDesc(shape.rows, shape.columns, shape.leadingC, false);
    auto describe = [&](const dnnl::memory::desc &weights) {
      return dnnl::matmul::primitive_desc(dnnl::matmul::desc(a, weights, c), attributes, cpuEngine());
    };
    auto chosen = describe(b);
    if (shape.packB) {
      auto preferred = describe(
          {{shape.depth, shape.columns}, dnnl::memory::data_type::f32, dnnl::memory::format_tag::any});
      const dnnl::memory::desc layout = preferred.weights_desc();
      // A blocked layout with padding would be padded anew at each use, and a plain one gains nothing.
      const uint64_t exact = static_cast<uint64_t>(shape.depth * shape.columns) * sizeof(float);
      const bool plain = layout == plainDesc(shape.depth, shape.columns, shape.columns, false) ||
                         layout == plainDesc(shape.depth, shape.columns, shape.depth, true);
      if (!plain && layout.get_size() == exact) {
        chosen = preferred;
        packed = exact;
      }
    }
    matmul = dnnl::matmul(chosen);
    const dnnl::memory::desc scratchDesc = chosen.scratchpad_desc();
    scratch = scratchDesc.get_size();
    if (packed) {
      dnnl::reorder::primitive_desc reorderDesc(cpuEngine(), b, cpuEngine(), chosen.weights_desc());
      reorder = dnnl::reorder(reorderDesc);
    }
    for (int worker = 0; worker < workers; ++worker) {
      auto memory = [](const dnnl::memory::desc &desc) { return dnnl::memory(desc, cpuEngine(), nullptr); };
      perWorker.push_back({dnnl::stream(cpuEngine()), memory(a), memory(chosen.weights_desc()), memory(c),
                           memory(scratchDesc), memory(b)});
    }
  }

  void pack(int worker, const float *b, float *target) const override {
    keepLibrarySingleThreaded();
    const Handles &handles = perWorker[static_cast<size_t>(worker)];
    set(handles.plainB, b);
    set(handles.b, target);
    const dnnl_exec_arg_t arguments[] = {{DNNL_ARG_FROM, handles.plainB.get()},
                                         {DNNL_ARG_TO, handles.b.get()}};
    execute(reorder, handles, 2, arguments);
  }

  void run(int worker, const float *a, const float *b, float *c, std::byte *scratchMemory) const override {
    keepLibrarySingleThreaded();
    const Handles &handles = perWorker[static_cast<size_t>(worker)];
    set(handles.a, a);
    set(handles.b, b);
    set(handles.c, c);
    set(handles.scratch, scratchMemory);
    // The C interface, because the C++ one builds a hash table for every call.
    const dnnl_exec_arg_t arguments[] = {{DNNL_ARG_SRC, handles.a.get()},
                                         {DNNL_ARG_WEIGHTS, handles.b.get()},
                                         {DNNL_ARG_DST, handles.c.get()},
                                         {DNNL_ARG_SCRATCHPAD, handles.scratch.get()}};
    execute(matmul, handles, 4, arguments);
  }

private:
  // Memory objects carry the pointer of one call, so each worker has its own.
  struct Handles {
    dnnl::stream stream;
    dnnl::memory a, b, c, scratch, plainB;
  };
  static void execute(const dnnl::primitive &primitive, const Handles &handles, int count,
                      const dnnl_exec_arg_t *arguments) {
    if (dnnl_primitive_execute(primitive.get(), handles.stream.get(), count, arguments) != dnnl_success)
      productFailed = true;
  }
  static void set(const dnnl::memory &memory, const void *pointer) {
    dnnl_memory_set_data_handle(memory.get(), const_cast<void *>(pointer));
  }

  dnnl::matmul matmul;
  dnnl::reorder reorder;
  std::vector<Handles> perWorker;
};

class SimdProduct final : public Product {
public:
  explicit SimdProduct(const ProductShape &shape) : shape(shape) {
    scratch = simdGemmScratchBytes(shape.rows, shape.columns, shape.depth);
  }
  void pack(int, const float *, float *) const override {}
  void run(int, const float *a, const float *b, float *c, std::byte *scratchMemory) const override {
    simdGemm(shape.rows, shape.columns, shape.depth, matrixView(a, shape.leadingA, shape.transposeA),
             matrixView(b, shape.leadingB, shape.transposeB), c, shape.leadingC, shape.accumulate,
             scratchMemory);
  }

private:
  ProductShape shape;
};

bool hasWideVectors() {
  static const bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  return wide;
}

/// oneDNN 2.6 without AVX-512 suffers from long strides across the reduced dimension (a transposed A, a plain
/// B with many columns): at powers of two it falls to 30 GFLOP/s a core of Zen 3, where our kernel, which
/// packs both operands, keeps 55. With short strides, and with AVX-512 in any case, oneDNN is the faster.
bool prefersSimd(const ProductShape &shape) {
  if (shape.depth == 0)
    return true;
  return !hasWideVectors() && (shape.transposeA || (!shape.transposeB && shape.leadingB > 512));
}

} // namespace

bool takeProductFailure() {
  return productFailed.exchange(false);
}

StatusOr<std::shared_ptr<const Product>> Product::create(const ProductShape &shape, int workers) {
  if (prefersSimd(shape))
    return std::shared_ptr<const Product>(std::make_shared<SimdProduct>(shape));
  try {
    return std::shared_ptr<const Product>(std::make_shared<DnnlProduct>(shape, workers));
  } catch (const dnnl::error &error) {
    return failure("oneDNN cannot make a product of [", shape.rows, ",", shape.depth, "] by [", shape.depth,
                   ",", shape.columns, "]: ", error.what(), " (status ", static_cast<int>(error.status), ")");
  }
}

StatusOr<TiledProduct> TiledProduct::create(const ProductShape &shape, int workers) {
  // Near-square tiles of 64 K outputs keep both operands' panels in the second-level cache; small products
  // are cut finer so that sixteen threads find work.
  int64_t rows = shape.columns <= 256 ? 256 : 128, columns = 512;
  auto tiles = [&] { return ceilDivide(shape.rows, rows) * ceilDivide(shape.columns, columns); };
  while (tiles() < 16 && (rows > 64 || columns > 64)) {
    if (std::min(columns, shape.columns) > std::min(rows, shape.rows) && columns > 64)
      columns /= 2;
    else if (rows > 64)
      rows /= 2;
    else
      columns /= 2;
  }
  return create(shape, workers, rows, columns);
}

StatusOr<TiledProduct> TiledProduct::create(const ProductShape &shape, int workers, int64_t tileRows,
                                            int64_t tileColumns) {
  TiledProduct tiled;
  tiled.shape = shape;
  tiled.tileRows = std::min(tileRows, shape.rows);
  tiled.tileColumns = std::min(tileColumns, shape.columns);
  // Only a transposed A needs pieces of the depth: its rows are spread over the whole operand.
  tiled.tileDepth = shape.transposeA ? std::min<int64_t>(shape.depth, 256) : shape.depth;
  if (shape.rows == 0 || shape.columns == 0)
    return tiled;
  tiled.rowTiles = ceilDivide(shape.rows, tiled.tileRows);
  tiled.columnTiles = ceilDivide(shape.columns, tiled.tileColumns);
  tiled.depthTiles = std::max<int64_t>(1, tiled.tileDepth ? ceilDivide(shape.depth, tiled.tileDepth) : 1);
  auto extent = [](int64_t total, int64_t tile, int64_t count, bool last) {
    return last ? total - (count - 1) * tile : tile;
  };
  for (int index = 0; index < 16; ++index) {
    const bool lastRow = index & 1, lastColumn = index & 2, lastDepth = index & 4, first = index & 8;
    if ((!lastRow && tiled.rowTiles == 1) || (!lastColumn && tiled.columnTiles == 1) ||
        (!lastDepth && tiled.depthTiles == 1) || (!first && tiled.depthTiles == 1) ||
        (first && lastDepth && tiled.depthTiles > 1))
      continue;
    ProductShape piece = shape;
    piece.rows = extent(shape.rows, tiled.tileRows, tiled.rowTiles, lastRow);
    piece.columns = extent(shape.columns, tiled.tileColumns, tiled.columnTiles, lastColumn);
    piece.depth = extent(shape.depth, tiled.tileDepth, tiled.depthTiles, lastDepth);
    piece.accumulate = shape.accumulate || !first;
    // One packed copy serves all row tiles only when they are alike: the preferred layout depends on the
    // rows.
    piece.packB = shape.packB && tiled.depthTiles == 1 && shape.rows % tiled.tileRows == 0;
    SLUICE_ASSIGN_OR_RETURN(tiled.pieces[lastRow][lastColumn][lastDepth][first],
                            Product::create(piece, workers));
    const Product &made = tiled.piece(lastRow, lastColumn, lastDepth, first);
    tiled.scratch = std::max(tiled.scratch, made.scratchBytes());
    tiled.packedStride = std::max(tiled.packedStride, made.packedBytes());
  }
  return tiled;
}

const Product &TiledProduct::piece(bool lastRow, bool lastColumn, bool lastDepth, bool first) const {
  return *pieces[lastRow][lastColumn][lastDepth][first];
}

TiledProduct::Range TiledProduct::range(int64_t tile) const {
  const int64_t row = tile / columnTiles * tileRows, column = tile % columnTiles * tileColumns;
  return {row, std::min(tileRows, shape.rows - row), column, std::min(tileColumns, shape.columns - column)};
}

void TiledProduct::run(int64_t tile, int worker, const float *a, const float *b, const float *packedB,
                       float *c, std::byte *scratchMemory) const {
  const int64_t rowTile = tile / columnTiles, columnTile = tile % columnTiles;
  const int64_t row = rowTile * tileRows, column = columnTile * tileColumns;
  for (int64_t depthTile = 0; depthTile < depthTiles; ++depthTile) {
    const int64_t depth = depthTile * tileDepth;
    const Product &product = piece(rowTile + 1 == rowTiles, columnTile + 1 == columnTiles,
                                   depthTile + 1 == depthTiles, depthTile == 0);
    const float *pieceA =
        a + (shape.transposeA ? depth * shape.leadingA + row : row * shape.leadingA + depth);
    const float *pieceB =
        b + (shape.transposeB ? column * shape.leadingB + depth : depth * shape.leadingB + column);
    if (packedB && product.packedBytes())
      pieceB = packedB + packedOffset(columnTile);
    product.run(worker, pieceA, pieceB, c + row * shape.leadingC + column, scratchMemory);
  }
}

void TiledProduct::pack(int64_t tile, int worker, const float *b, float *packedB) const {
  const int64_t column = tile * tileColumns;
  const Product &product = piece(true, tile + 1 == columnTiles, true, true);
  if (product.packedBytes())
    product.pack(worker, b + (shape.transposeB ? column * shape.leadingB : column),
                 packedB + packedOffset(tile));
}

StatusOr<VariableProduct> VariableProduct::create(ProductShape shape, Extent extent, int64_t most,
                                                  int workers) {
  VariableProduct variable;
  for (int64_t size : tiles::preparedExtents) {
    (extent == Extent::Rows ? shape.rows : shape.depth) = size;
    SLUICE_ASSIGN_OR_RETURN(auto product, Product::create(shape, workers));
    variable.scratch = std::max(variable.scratch, product->scratchBytes());
    variable.products.emplace_back(size, std::move(product));
    if (size >= most)
      break;
  }
  return variable;
}

int64_t VariableProduct::padded(int64_t extent) const {
  for (const auto &[size, product] : products)
    if (size >= extent)
      return size;
  return products.back().first;
}

void VariableProduct::run(int64_t extent, int worker, const float *a, const float *b, float *c,
                          std::byte *scratchMemory) const {
  for (const auto &[size, product] : products)
    if (size == extent)
      return product->run(worker, a, b, c, scratchMemory);
}

} // namespace sluice::cpu
