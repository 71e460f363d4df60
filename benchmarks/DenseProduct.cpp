#include "benchmarks/DenseProduct.h"

#include <dnnl.hpp>

#include <algorithm>
#include <chrono>

namespace sluice::benchmarks {

using namespace dnnl;

double denseProductSeconds(int64_t m, int64_t n, int64_t k, bool transposeA, bool transposeB) {
  static engine device(engine::kind::cpu, 0);
  static stream queue(device);
  auto type = memory::data_type::f32;
  using tag = memory::format_tag;
  memory::desc a({m, k}, type, transposeA ? tag::ba : tag::ab),
      b({k, n}, type, transposeB ? tag::ba : tag::ab), c({m, n}, type, tag::ab);
  matmul::primitive_desc description(matmul::desc(a, b, c), device);
  matmul primitive(description);
  memory memoryA(a, device), memoryB(b, device), memoryC(c, device);
  for (memory *operand : {&memoryA, &memoryB}) {
    float *values = static_cast<float *>(operand->get_data_handle());
    size_t count = operand->get_desc().get_size() / sizeof(float);
    for (size_t i = 0; i < count; ++i)
      values[i] = 0.25f + static_cast<float>((i * 2654435761u >> 20) & 1023) / 4096.0f;
  }
  double best = 1e30;
  for (int run = 0; run < 5; ++run) {
    auto start = std::chrono::steady_clock::now();
    primitive.execute(queue, {{DNNL_ARG_SRC, memoryA}, {DNNL_ARG_WEIGHTS, memoryB}, {DNNL_ARG_DST, memoryC}});
    queue.wait();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

} // namespace sluice::benchmarks
