// Emits a kernel program's values at one position of the domain: scalars once a row, vectors along the
// columns.
#pragma once

#include "codegen/kernel/Program.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "llvm/ADT/DenseMap.h"

namespace sluice::cpu {

/// The builder, constants and memory access that all emitters share.
class CodeBuilder {
public:
  CodeBuilder(mlir::OpBuilder &builder, mlir::Location loc, int64_t width);

  mlir::Value integer(int64_t value);
  mlir::Value number(double value);
  mlir::Value splat(double value);
  mlir::Value broadcast(mlir::Value scalar);
  mlir::Value add(mlir::Value a, mlir::Value b);      // integers
  mlir::Value multiply(mlir::Value a, mlir::Value b); // integers
  mlir::Value minimum(mlir::Value a, mlir::Value b);  // integers
  mlir::Value equal(mlir::Value a, mlir::Value b);    // integers
  /// Address of element `offset` of the float32 array at `base`.
  mlir::Value element(mlir::Value base, mlir::Value offset);
  /// The first `count` lanes; all of them without a mask.
  mlir::Value mask(int64_t count);
  mlir::Value loadVector(mlir::Value address, int64_t count);
  void storeVector(mlir::Value address, mlir::Value vector, int64_t count);
  mlir::Value loadScalar(mlir::Value address);
  void storeScalar(mlir::Value address, mlir::Value scalar);
  /// Sum or maximum of two vectors or scalars.
  mlir::Value combine(bool maximum, mlir::Value a, mlir::Value b);
  /// The sum or maximum over the lanes by halving: a fixed order.
  mlir::Value combineLanes(bool maximum, mlir::Value vector);

  mlir::OpBuilder &builder;
  mlir::Location loc;
  int64_t width; // lanes of a vector
  mlir::FloatType f32;
  mlir::VectorType vectorType;
  mlir::Type i64, pointer;
};

class ValueEmitter {
public:
  /// `buffers` are the kernel's pointers, inputs then outputs. `line`: rows and columns are one line, and a
  /// position's column counts from its start.
  ValueEmitter(CodeBuilder &code, const KernelProgram &program, llvm::ArrayRef<mlir::Value> buffers,
               bool line);

  /// Emits the scalars that no row changes; call once, at the kernel's start.
  void enterKernel();
  /// Starts row `row`: forgets the previous row's scalars and addresses.
  void enterRow(mlir::Value row);
  /// Emits what the values of `nodes` need once a row: scalars and the addresses of their rows.
  void prepare(llvm::ArrayRef<int> nodes);
  /// Starts a vector of `count` columns at `column`.
  void enterVector(mlir::Value column, int64_t count);
  /// The node's values at the current vector; a scalar is repeated. prepare() has seen the node.
  mlir::Value vector(int node);
  /// The node's value in the current row; not for nodes that vary along the columns.
  mlir::Value scalar(int node);
  /// Says what a reduction came to: a row's scalar, or the current vector's lanes.
  void setScalar(int node, mlir::Value value) { rowScalars[node] = value; }
  void setVector(int node, mlir::Value value) { vectors[node] = value; }
  /// Address of output `output` in the current row at the current vector, or of its scalar.
  mlir::Value outputAddress(int output);
  int64_t count() const { return lanes; }

private:
  mlir::Value rowOffset(const IndexMap &index);
  mlir::Value rowAddress(mlir::Value base, const IndexMap &index);
  mlir::Value emitMap(MapOp map, llvm::ArrayRef<mlir::Value> operands, bool vectorised);
  mlir::Value compute(const KernelNode &node, llvm::ArrayRef<mlir::Value> operands, bool vectorised);

  CodeBuilder &code;
  const KernelProgram &program;
  llvm::SmallVector<mlir::Value> buffers;
  bool line;
  mlir::Value row, column;
  int64_t lanes = 0;
  llvm::DenseMap<int, mlir::Value> kernelScalars, rowScalars, rowAddresses, vectors;
};

} // namespace sluice::cpu
