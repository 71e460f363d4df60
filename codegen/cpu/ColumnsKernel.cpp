#include "codegen/cpu/Loops.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

#include <limits>

using namespace mlir;

namespace sluice::cpu {
namespace {

// Rows are summed in blocks of this many, then the blocks' sums: the error grows with the root of the block
// count.
constexpr int64_t rowsPerBlock = 64;

class ColumnsEmitter {
public:
  ColumnsEmitter(CodeBuilder &code, const KernelProgram &program, llvm::ArrayRef<Value> buffers)
      : code(code), program(program), values(code, program, buffers, /*line=*/false) {
    for (auto [index, node] : llvm::enumerate(program.nodes))
      if (node.isOverRows())
        sums.push_back(static_cast<int>(index));
  }

  void emit(const KernelTiling &tiling, Value tile) {
    values.enterKernel();
    first = code.multiply(tile, code.integer(tiling.size));
    int64_t rest = program.columns % tiling.size;
    if (rest == 0)
      return emitBlock(tiling.size);
    if (tiling.tiles == 1)
      return emitBlock(rest);
    auto isLast =
        scf::IfOp::create(code.builder, code.loc, code.equal(tile, code.integer(tiling.tiles - 1)), true);
    OpBuilder::InsertionGuard guard(code.builder);
    code.builder.setInsertionPointToStart(&isLast.getThenRegion().front());
    emitBlock(rest);
    code.builder.setInsertionPointToStart(&isLast.getElseRegion().front());
    emitBlock(tiling.size);
  }

private:
  using LoopBody = llvm::function_ref<llvm::SmallVector<Value>(Value, ValueRange)>;

  llvm::SmallVector<Value> loop(Value begin, Value end, int64_t step, ValueRange inits, LoopBody body) {
    auto loop = scf::ForOp::create(code.builder, code.loc, begin, end, code.integer(step), inits,
                                   [&](OpBuilder &, Location, Value position, ValueRange carried) {
                                     OpBuilder::InsertionGuard guard(code.builder);
                                     code.builder.setInsertionPointToEnd(position.getParentBlock());
                                     llvm::SmallVector<Value> next = body(position, carried);
                                     scf::YieldOp::create(code.builder, code.loc, next);
                                   });
    return llvm::SmallVector<Value>(loop.getResults());
  }

  bool isMaximum(int sum) const { return program.nodes[sum].isMaximum(); }
  int64_t lanes(int64_t extent, int64_t vector) const {
    return std::min(code.width, extent - vector * code.width);
  }
  Value columnOf(int64_t vector) {
    return vector == 0 ? first : code.add(first, code.integer(vector * code.width));
  }

  /// All rows of `extent` columns.
  void emitBlock(int64_t extent) {
    int64_t vectors = (extent + code.width - 1) / code.width;
    llvm::SmallVector<Value> starts;
    for (int64_t vector = 0; vector < vectors; ++vector)
      for (int sum : sums)
        starts.push_back(code.splat(isMaximum(sum) ? -std::numeric_limits<double>::infinity() : 0.0));
    Value end = code.integer(program.rows);
    auto addRows = [&](Value begin, Value end, ValueRange inits) {
      return loop(begin, end, 1, inits, [&](Value row, ValueRange carried) {
        values.enterRow(row);
        llvm::SmallVector<int> operands;
        for (int sum : sums)
          operands.push_back(program.nodes[sum].operands[0]);
        values.prepare(operands);
        llvm::SmallVector<Value> next;
        for (int64_t vector = 0; vector < vectors; ++vector) {
          values.enterVector(columnOf(vector), lanes(extent, vector));
          for (auto [sum, operand] : llvm::zip(sums, operands))
            next.push_back(code.combine(isMaximum(sum), carried[next.size()], values.vector(operand)));
        }
        return next;
      });
    };
    llvm::SmallVector<Value> totals =
        loop(code.integer(0), end, rowsPerBlock, starts, [&](Value begin, ValueRange carried) {
          Value blockEnd = code.minimum(code.add(begin, code.integer(rowsPerBlock)), end);
          llvm::SmallVector<Value> next = addRows(begin, blockEnd, starts);
          for (auto [index, value] : llvm::enumerate(next))
            value = code.combine(isMaximum(sums[index % sums.size()]), carried[index], value);
          return next;
        });
    values.enterRow(code.integer(0));
    llvm::SmallVector<int> results;
    for (const KernelOutput &output : program.outputs)
      results.push_back(output.node);
    values.prepare(results);
    for (int64_t vector = 0; vector < vectors; ++vector) {
      values.enterVector(columnOf(vector), lanes(extent, vector));
      for (auto [index, sum] : llvm::enumerate(sums))
        values.setVector(sum, totals[vector * sums.size() + index]);
      llvm::SmallVector<Value> written;
      for (int result : results)
        written.push_back(values.vector(result));
      for (auto [index, value] : llvm::enumerate(written))
        code.storeVector(values.outputAddress(static_cast<int>(index)), value, lanes(extent, vector));
    }
  }

  CodeBuilder &code;
  const KernelProgram &program;
  ValueEmitter values;
  llvm::SmallVector<int> sums;
  Value first;
};

} // namespace

void emitColumnsKernel(CodeBuilder &code, const KernelProgram &program, const KernelTiling &tiling,
                       llvm::ArrayRef<Value> buffers, Value tile) {
  ColumnsEmitter(code, program, buffers).emit(tiling, tile);
}

} // namespace sluice::cpu
