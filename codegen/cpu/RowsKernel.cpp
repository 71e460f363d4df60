#include "codegen/cpu/Loops.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

#include <limits>

using namespace mlir;

namespace sluice::cpu {
namespace {

/// What one pass over the columns does.
struct Pass {
  llvm::SmallVector<int> reductions; // nodes
  llvm::SmallVector<int> outputs;    // indices of outputs
  llvm::SmallVector<int> needed;     // nodes whose vectors are read
};

Pass passOf(const KernelProgram &program, int number) {
  Pass pass;
  for (auto [index, node] : llvm::enumerate(program.nodes))
    if (node.isReduction() && program.nodes[node.operands[0]].level == number) {
      pass.reductions.push_back(static_cast<int>(index));
      pass.needed.push_back(node.operands[0]);
    }
  for (auto [index, output] : llvm::enumerate(program.outputs))
    if (output.index.columns && program.nodes[output.node].level == number) {
      pass.outputs.push_back(static_cast<int>(index));
      pass.needed.push_back(output.node);
    }
  return pass;
}

class RowsEmitter {
public:
  RowsEmitter(CodeBuilder &code, const KernelProgram &program, llvm::ArrayRef<Value> buffers, bool line)
      : code(code), program(program), values(code, program, buffers, line) {}

  void emitLine(int64_t size, int64_t tiles, Value tile) {
    int64_t elements = program.rows * program.columns, whole = elements / code.width * code.width;
    Pass pass = passOf(program, 0);
    values.enterKernel();
    values.enterRow(code.integer(0));
    values.prepare(pass.needed);
    Value begin = code.multiply(tile, code.integer(size));
    Value end = code.minimum(code.add(begin, code.integer(size)), code.integer(whole));
    loop(begin, end, code.width, {}, [&](Value column, ValueRange) {
      chunk(pass, column, code.width, {});
      return llvm::SmallVector<Value>();
    });
    if (whole == elements)
      return;
    auto last = scf::IfOp::create(code.builder, code.loc, code.equal(tile, code.integer(tiles - 1)), false);
    OpBuilder::InsertionGuard guard(code.builder);
    code.builder.setInsertionPointToStart(&last.getThenRegion().front());
    chunk(pass, code.integer(whole), elements - whole, {});
  }

  void emitRows(int64_t size, Value tile) {
    values.enterKernel();
    Value begin = code.multiply(tile, code.integer(size));
    Value end = code.minimum(code.add(begin, code.integer(size)), code.integer(program.rows));
    loop(begin, end, 1, {}, [&](Value row, ValueRange) {
      values.enterRow(row);
      for (int number = 0, passes = program.passes(); number < passes; ++number)
        emitPass(passOf(program, number));
      for (auto [index, output] : llvm::enumerate(program.outputs))
        if (!output.index.columns)
          code.storeScalar(values.outputAddress(static_cast<int>(index)), values.scalar(output.node));
      return llvm::SmallVector<Value>();
    });
  }

private:
  using LoopBody = llvm::function_ref<llvm::SmallVector<Value>(Value, ValueRange)>;

  llvm::SmallVector<Value> loop(Value begin, Value end, int64_t step, ValueRange inits, LoopBody body) {
    auto loop = scf::ForOp::create(code.builder, code.loc, begin, end, code.integer(step), inits,
                                   [&](OpBuilder &, Location, Value position, ValueRange carried) {
                                     OpBuilder::InsertionGuard guard(code.builder);
                                     Block *block = position.getParentBlock();
                                     code.builder.setInsertionPointToEnd(block);
                                     llvm::SmallVector<Value> next = body(position, carried);
                                     scf::YieldOp::create(code.builder, code.loc, next);
                                   });
    return llvm::SmallVector<Value>(loop.getResults());
  }

  bool isMaximum(int reduction) const { return program.nodes[reduction].isMaximum(); }
  double identity(int reduction) const {
    return isMaximum(reduction) ? -std::numeric_limits<double>::infinity() : 0.0;
  }

  /// One vector: adds to the accumulators and writes the outputs of the pass.
  llvm::SmallVector<Value> chunk(const Pass &pass, Value column, int64_t count, ValueRange accumulators) {
    values.enterVector(column, count);
    llvm::SmallVector<Value> next;
    for (auto [index, reduction] : llvm::enumerate(pass.reductions)) {
      Value value = values.vector(program.nodes[reduction].operands[0]);
      if (count != code.width)
        value = arith::SelectOp::create(code.builder, code.loc, code.mask(count), value,
                                        code.splat(identity(reduction)));
      next.push_back(code.combine(isMaximum(reduction), accumulators[index], value));
    }
    // All reads of the chunk come before its writes: an output may lie over an input.
    llvm::SmallVector<Value> results;
    for (int output : pass.outputs)
      results.push_back(values.vector(program.outputs[output].node));
    for (auto [output, result] : llvm::zip(pass.outputs, results))
      code.storeVector(values.outputAddress(output), result, count);
    return next;
  }

  /// Vectors a trip: several where a reduction's chain of additions would be the bottleneck.
  int64_t unroll(const Pass &pass) const {
    bool light = pass.needed.size() <= 2 && program.nodes.size() <= 12;
    return !pass.reductions.empty() && light && program.columns >= 8 * code.width ? 4 : 1;
  }

  void emitPass(const Pass &pass) {
    values.prepare(pass.needed);
    int64_t ways = unroll(pass), kinds = static_cast<int64_t>(pass.reductions.size());
    llvm::SmallVector<Value> sums;
    for (int64_t way = 0; way < ways; ++way)
      for (int reduction : pass.reductions)
        sums.push_back(code.splat(identity(reduction)));
    int64_t column = program.columns / (code.width * ways) * (code.width * ways);
    if (column > 0)
      sums =
          loop(code.integer(0), code.integer(column), code.width * ways, sums,
               [&](Value start, ValueRange carried) {
                 llvm::SmallVector<Value> next;
                 for (int64_t way = 0; way < ways; ++way)
                   next.append(chunk(pass, way == 0 ? start : code.add(start, code.integer(way * code.width)),
                                     code.width, carried.slice(way * kinds, kinds)));
                 return next;
               });
    for (int64_t way = 0; column < program.columns; column += code.width, way = (way + 1) % ways) {
      int64_t count = std::min(code.width, program.columns - column);
      llvm::SmallVector<Value> next =
          chunk(pass, code.integer(column), count, ValueRange(sums).slice(way * kinds, kinds));
      llvm::copy(next, sums.begin() + way * kinds);
    }
    for (auto [index, reduction] : llvm::enumerate(pass.reductions)) {
      Value total = sums[index];
      for (int64_t way = 1; way < ways; ++way)
        total = code.combine(isMaximum(reduction), total, sums[way * kinds + index]);
      values.setScalar(reduction, code.combineLanes(isMaximum(reduction), total));
    }
  }

  CodeBuilder &code;
  const KernelProgram &program;
  ValueEmitter values;
};

} // namespace

void emitRowsKernel(CodeBuilder &code, const KernelProgram &program, const KernelTiling &tiling,
                    llvm::ArrayRef<Value> buffers, Value tile) {
  bool line = tiling.shape == KernelTiling::Shape::Line;
  RowsEmitter emitter(code, program, buffers, line);
  if (line)
    emitter.emitLine(tiling.size, tiling.tiles, tile);
  else
    emitter.emitRows(tiling.size, tile);
}

} // namespace sluice::cpu
