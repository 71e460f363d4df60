// Generated kernels against the float64 meaning of the ops they hold: relative L2 at most 1e-5, over odd
// shapes.
#include "codegen/cpu/Generate.h"
#include "codegen/kernel/Identity.h"
#include "codegen/kernel/Tiling.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"

#include "llvm/ADT/DenseMap.h"
#include "gtest/gtest.h"

#include <cmath>
#include <cstring>
#include <dlfcn.h>
#include <random>
#include <sys/mman.h>
#include <unistd.h>

namespace sluice {
namespace {

using Values = std::vector<HostTensor>;

/// Loads a shared object from memory; stays loaded, and open: the loader knows libraries by their path.
const SluiceKernelLibrary *load(const std::string &image) {
  int file = memfd_create("kernels", 0);
  EXPECT_EQ(write(file, image.data(), image.size()), static_cast<ssize_t>(image.size()));
  void *library = dlopen(("/proc/self/fd/" + std::to_string(file)).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    ADD_FAILURE() << dlerror();
    return nullptr;
  }
  return reinterpret_cast<SluiceKernelLibraryQuery>(dlsym(library, SLUICE_KERNEL_LIBRARY_QUERY))();
}

Values evaluate(KernelOp kernel, const Values &inputs) {
  llvm::DenseMap<mlir::Value, HostTensor> known;
  mlir::Block &body = kernel.getBody().front();
  for (auto [argument, input] : llvm::zip(body.getArguments(), inputs))
    known[argument] = input;
  for (mlir::Operation &op : body.without_terminator()) {
    llvm::SmallVector<const HostTensor *> operands;
    for (mlir::Value operand : op.getOperands())
      operands.push_back(&known[operand]);
    Evaluation evaluation(&op, operands);
    EXPECT_TRUE(mlir::succeeded(mlir::cast<Evaluable>(op).evaluate(evaluation)));
    std::vector<HostTensor> results = evaluation.takeResults();
    for (auto [result, value] : llvm::zip(op.getResults(), results))
      known[result] = value;
  }
  Values results;
  for (mlir::Value value : body.getTerminator()->getOperands())
    results.push_back(known[value]);
  return results;
}

double relativeError(const HostTensor &expected, const float *found) {
  double difference = 0, norm = 0;
  for (int64_t i = 0; i < expected.size(); ++i) {
    difference += std::pow(expected[i] - static_cast<double>(found[i]), 2);
    norm += expected[i] * expected[i];
  }
  return std::sqrt(difference / std::max(norm, 1e-30));
}

class KernelTest : public testing::TestWithParam<std::pair<int64_t, int64_t>> {
protected:
  KernelTest() { context.loadDialect<SluiceDialect, mlir::arith::ArithDialect, mlir::math::MathDialect>(); }

  /// The text with R and C replaced by the shape, as the only kernel of a module.
  KernelOp parse(std::string text, int64_t rows, int64_t columns) {
    auto replace = [&](const std::string &name, int64_t value) {
      for (size_t at; (at = text.find(name)) != std::string::npos;)
        text.replace(at, name.size(), std::to_string(value));
    };
    replace("$R", rows);
    replace("$C", columns);
    module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
    EXPECT_TRUE(module) << text;
    KernelOp kernel;
    if (module)
      module->walk([&](KernelOp op) { kernel = op; });
    return kernel;
  }

  /// Generates, runs all tiles and compares; returns the outputs.
  void check(const std::string &text, int64_t rows, int64_t columns) {
    KernelOp kernel = parse(text, rows, columns);
    ASSERT_TRUE(kernel);
    mlir::FailureOr<KernelProgram> program = readKernelProgram(kernel);
    ASSERT_TRUE(mlir::succeeded(program));
    std::string name = kernelName(kernel);
    StatusOr<cpu::GeneratedKernels> generated = cpu::generateKernels({{name, kernel}}, cpu::hostLevel());
    ASSERT_TRUE(generated.ok()) << generated.status();
    const SluiceKernelLibrary *library = load(generated->image);
    ASSERT_TRUE(library);
    EXPECT_EQ(library->abi_version, SLUICE_KERNEL_ABI_VERSION);
    ASSERT_EQ(library->entry_count, 1u);
    EXPECT_EQ(library->entries[0].name, name);

    std::mt19937 random(17);
    std::normal_distribution<float> normal;
    Values inputs;
    std::vector<std::vector<float>> memory;
    const float guard = -12345.0f;
    auto addBuffer = [&](const HostTensor &tensor) {
      memory.emplace_back(tensor.values.begin(), tensor.values.end());
      memory.back().insert(memory.back().end(), 32, guard);
    };
    for (mlir::Type type : kernel.getOperandTypes()) {
      HostTensor tensor(mlir::cast<mlir::RankedTensorType>(type).getShape());
      for (double &value : tensor.values)
        value = static_cast<double>(normal(random));
      inputs.push_back(tensor);
      addBuffer(tensor);
    }
    Values expected = evaluate(kernel, inputs);
    for (const HostTensor &tensor : expected)
      addBuffer(HostTensor(tensor.shape, std::nan("")));
    std::vector<void *> buffers;
    for (std::vector<float> &buffer : memory)
      buffers.push_back(buffer.data());
    for (int64_t tile = tilingOf(*program).tiles - 1; tile >= 0; --tile)
      library->entries[0].function(buffers.data(), nullptr, tile);
    for (size_t i = 0; i < expected.size(); ++i) {
      const std::vector<float> &found = memory[inputs.size() + i];
      EXPECT_LE(relativeError(expected[i], found.data()), 1e-5) << "output " << i << " of " << text;
      for (size_t j = found.size() - 32; j < found.size(); ++j)
        ASSERT_EQ(found[j], guard) << "output " << i << " was written beyond its end";
    }
  }

  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

// Full, row, column and scalar operands.
TEST_P(KernelTest, Elementwise) {
  check(R"(sluice.graph @g(%x: tensor<$Rx$Cxf32>, %r: tensor<$Rx1xf32>, %c: tensor<$Cxf32>, %s: tensor<f32>) {
    %y = sluice.kernel "rows" {rows = $R, columns = $C} (%0 = %x, %1 = %r, %2 = %c, %3 = %s)
        : (tensor<$Rx$Cxf32>, tensor<$Rx1xf32>, tensor<$Cxf32>, tensor<f32>) -> tensor<$Rx$Cxf32> {
      %4 = sluice.map (%a = %0, %b = %1, %d = %2, %e = %3)
          : (tensor<$Rx$Cxf32>, tensor<$Rx1xf32>, tensor<$Cxf32>, tensor<f32>) -> tensor<$Rx$Cxf32> {
        %5 = arith.mulf %a, %b : f32
        %6 = arith.addf %5, %d : f32
        %7 = arith.mulf %6, %e : f32
        sluice.yield %7 : f32
      }
      sluice.yield %4 : tensor<$Rx$Cxf32>
    }
    sluice.return %y ["y"] : tensor<$Rx$Cxf32>
  })",
        GetParam().first, GetParam().second);
}

// silu(gate) * up: one line of elements, whatever the shape.
TEST_P(KernelTest, SwiGlu) {
  check(R"(sluice.graph @g(%x: tensor<$Rx$Cxf32>, %u: tensor<$Rx$Cxf32>) {
    %y = sluice.kernel "rows" {rows = $R, columns = $C} (%0 = %x, %1 = %u)
        : (tensor<$Rx$Cxf32>, tensor<$Rx$Cxf32>) -> tensor<$Rx$Cxf32> {
      %4 = sluice.map (%a = %0, %b = %1) : (tensor<$Rx$Cxf32>, tensor<$Rx$Cxf32>) -> tensor<$Rx$Cxf32> {
        %one = arith.constant 1.0 : f32
        %n = arith.negf %a : f32
        %e = math.exp %n : f32
        %d = arith.addf %one, %e : f32
        %q = arith.divf %a, %d : f32
        %p = arith.mulf %q, %b : f32
        sluice.yield %p : f32
      }
      sluice.yield %4 : tensor<$Rx$Cxf32>
    }
    sluice.return %y ["y"] : tensor<$Rx$Cxf32>
  })",
        GetParam().first, GetParam().second);
}

// A residual sum and an RMS norm: three outputs, one row sum, two passes.
TEST_P(KernelTest, ResidualAndNorm) {
  check(R"(sluice.graph @g(%x: tensor<$Rx$Cxf32>, %u: tensor<$Rx$Cxf32>, %g: tensor<$Cxf32>) {
    %y:3 = sluice.kernel "rows" {rows = $R, columns = $C} (%0 = %x, %1 = %u, %2 = %g)
        : (tensor<$Rx$Cxf32>, tensor<$Rx$Cxf32>, tensor<$Cxf32>)
        -> (tensor<$Rx$Cxf32>, tensor<$Rx1xf32>, tensor<$Rx$Cxf32>) {
      %h = sluice.map (%a = %0, %b = %1) : (tensor<$Rx$Cxf32>, tensor<$Rx$Cxf32>) -> tensor<$Rx$Cxf32> {
        %p = arith.addf %a, %b : f32
        sluice.yield %p : f32
      }
      %q = sluice.map (%a = %h) : (tensor<$Rx$Cxf32>) -> tensor<$Rx$Cxf32> {
        %p = arith.mulf %a, %a : f32
        sluice.yield %p : f32
      }
      %t = sluice.reduce %q {axes = array<i64: 1>} : (tensor<$Rx$Cxf32>) -> tensor<$Rx1xf32>
      %r = sluice.map (%a = %t) : (tensor<$Rx1xf32>) -> tensor<$Rx1xf32> {
        %i = arith.constant 0.01 : f32
        %e = arith.constant 1.0e-5 : f32
        %m = arith.mulf %a, %i : f32
        %o = arith.addf %m, %e : f32
        %p = math.rsqrt %o : f32
        sluice.yield %p : f32
      }
      %n = sluice.map (%a = %h, %b = %r, %c = %2)
          : (tensor<$Rx$Cxf32>, tensor<$Rx1xf32>, tensor<$Cxf32>) -> tensor<$Rx$Cxf32> {
        %p = arith.mulf %a, %b : f32
        %s = arith.mulf %p, %c : f32
        sluice.yield %s : f32
      }
      sluice.yield %h, %r, %n : tensor<$Rx$Cxf32>, tensor<$Rx1xf32>, tensor<$Rx$Cxf32>
    }
    sluice.return %y#0, %y#1, %y#2 ["h", "r", "n"] : tensor<$Rx$Cxf32>, tensor<$Rx1xf32>, tensor<$Rx$Cxf32>
  })",
        GetParam().first, GetParam().second);
}

// Softmax: a maximum, a sum of exponentials, a quotient: three passes.
TEST_P(KernelTest, Softmax) {
  check(R"(sluice.graph @g(%x: tensor<$Rx$Cxf32>) {
    %y = sluice.kernel "rows" {rows = $R, columns = $C} (%0 = %x) : (tensor<$Rx$Cxf32>) -> tensor<$Rx$Cxf32> {
      %m = sluice.reduce %0 {axes = array<i64: 1>, kind = "max"} : (tensor<$Rx$Cxf32>) -> tensor<$Rx1xf32>
      %e = sluice.map (%a = %0, %b = %m) : (tensor<$Rx$Cxf32>, tensor<$Rx1xf32>) -> tensor<$Rx$Cxf32> {
        %d = arith.subf %a, %b : f32
        %p = math.exp %d : f32
        sluice.yield %p : f32
      }
      %t = sluice.reduce %e {axes = array<i64: 1>} : (tensor<$Rx$Cxf32>) -> tensor<$Rx1xf32>
      %q = sluice.map (%a = %e, %b = %t) : (tensor<$Rx$Cxf32>, tensor<$Rx1xf32>) -> tensor<$Rx$Cxf32> {
        %p = arith.divf %a, %b : f32
        sluice.yield %p : f32
      }
      sluice.yield %q : tensor<$Rx$Cxf32>
    }
    sluice.return %y ["y"] : tensor<$Rx$Cxf32>
  })",
        GetParam().first, GetParam().second);
}

// The gradient of a gain: a sum over rows with its producers, then an addition to an old sum.
TEST_P(KernelTest, ColumnSum) {
  check(
      R"(sluice.graph @g(%x: tensor<$Rx$Cxf32>, %d: tensor<$Rx$Cxf32>, %r: tensor<$Rx1xf32>, %o: tensor<1x$Cxf32>) {
    %y = sluice.kernel "columns" {rows = $R, columns = $C} (%0 = %x, %1 = %d, %2 = %r, %3 = %o)
        : (tensor<$Rx$Cxf32>, tensor<$Rx$Cxf32>, tensor<$Rx1xf32>, tensor<1x$Cxf32>) -> tensor<1x$Cxf32> {
      %n = sluice.map (%a = %0, %b = %1, %c = %2)
          : (tensor<$Rx$Cxf32>, tensor<$Rx$Cxf32>, tensor<$Rx1xf32>) -> tensor<$Rx$Cxf32> {
        %p = arith.mulf %a, %b : f32
        %s = arith.mulf %p, %c : f32
        sluice.yield %s : f32
      }
      %t = sluice.reduce %n {axes = array<i64: 0>} : (tensor<$Rx$Cxf32>) -> tensor<1x$Cxf32>
      %u = sluice.map (%a = %t, %b = %3) : (tensor<1x$Cxf32>, tensor<1x$Cxf32>) -> tensor<1x$Cxf32> {
        %p = arith.addf %a, %b : f32
        sluice.yield %p : f32
      }
      sluice.yield %u : tensor<1x$Cxf32>
    }
    sluice.return %y ["y"] : tensor<1x$Cxf32>
  })",
      GetParam().first, GetParam().second);
}

// One row, many rows, columns that no vector width divides, less than a vector, several tiles.
INSTANTIATE_TEST_SUITE_P(
    Shapes, KernelTest,
    testing::Values(std::pair<int64_t, int64_t>{1, 64}, std::pair<int64_t, int64_t>{1, 37},
                    std::pair<int64_t, int64_t>{7, 100}, std::pair<int64_t, int64_t>{300, 256},
                    std::pair<int64_t, int64_t>{129, 5}, std::pair<int64_t, int64_t>{2, 4099},
                    std::pair<int64_t, int64_t>{33, 16}, std::pair<int64_t, int64_t>{1000, 31}));

} // namespace
} // namespace sluice
