// A few primitives from which new blocks are made without C++. Each carries its count, adjoint, meaning and kernel.
#ifndef SLUICE_PRIMITIVE_TD
#define SLUICE_PRIMITIVE_TD

include "dialects/sluice/Dialect.td"

def Sluice_MapOp : Sluice_DifferentiableOp<"map", [0], [], [SingleBlock]> {
  let summary = "Elementwise: the body of arith and math ops, once an element.";
  let description = [{
    Operands broadcast: aligned at the last dimension, each size equals the result's or is 1. The body sees one scalar an
    operand and yields one scalar. Its adjoint is derived from the body, rule by rule; the adjoint reads all operands.
    ```mlir
    %y = sluice.map (%a = %gate, %b = %up) : (t, t) -> t { %c = arith.mulf %a, %b : f32  sluice.yield %c : f32 }
    ```
  }];
  let arguments = (ins Variadic<Sluice_FloatTensor>:$inputs);
  let results = (outs Sluice_FloatTensor:$result);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = ?;
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// The adjoint may read every operand.
    ::llvm::ArrayRef<int64_t> adjointReadsOperands();
    ::llvm::ArrayRef<int64_t> adjointReadsResults() { return {}; }
  }];
}

def Sluice_ReduceOp : Sluice_ValueOp<"reduce", [DeclareOpInterfaceMethods<Sluice_Differentiable, ["buildAdjoint"]>]> {
  let summary = "Sum (or maximum) over some axes; reduced axes stay with size 1.";
  let description = [{
    `y[.., 0, ..] = sum over axes of x`. Example: `sluice.reduce %x {axes = array<i64: 2>} : (tensor<2x3x4xf32>) -> tensor<2x3x1xf32>`.
    `kind` is `sum` or `max`; the adjoint of a sum reads nothing, that of a maximum reads operand and result.
  }];
  let arguments = (ins Sluice_FloatTensor:$x, DenseI64ArrayAttr:$axes, DefaultValuedStrAttr<StrAttr, "sum">:$kind);
  let results = (outs Sluice_FloatTensor:$y);
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    bool isSum() { return getKind() == "sum"; }
    ::llvm::ArrayRef<int64_t> adjointReadsOperands();
    ::llvm::ArrayRef<int64_t> adjointReadsResults();
  }];
}

def Sluice_BroadcastOp : Sluice_ValueOp<"broadcast", [DeclareOpInterfaceMethods<Sluice_Differentiable, ["buildAdjoint"]>]> {
  let summary = "Repeats along axes of size 1 to the result's shape (also adds leading axes). A size of -1 in `shape` keeps the operand's.";
  let arguments = (ins Sluice_FloatTensor:$x, DenseI64ArrayAttr:$shape);
  let results = (outs Sluice_FloatTensor:$y);
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::llvm::ArrayRef<int64_t> adjointReadsOperands() { return {}; }
    ::llvm::ArrayRef<int64_t> adjointReadsResults() { return {}; }
  }];
}

def Sluice_ContractOp : Sluice_DifferentiableOp<"contract", [0, 1], []> {
  let summary = "A product of two tensors, summed over the indices that the result lacks (einsum).";
  let description = "Example: `sluice.contract %a, %b {equation = \"mk,nk->mn\"}`. Letters are unique in each operand; each letter of an operand stands in the other or in the result.";
  let arguments = (ins Sluice_FloatTensor:$a, Sluice_FloatTensor:$b, StrAttr:$equation);
  let results = (outs Sluice_FloatTensor:$c);
  let hasVerifier = 1;
}

def Sluice_ReshapeOp : Sluice_DifferentiableOp<"reshape", [], []> {
  let summary = "The same elements in row-major order under another shape.";
  let description = "One size of `shape` may be -1: what is left. A size of -2 is the operand's size of the same axis, which may be named.";
  let arguments = (ins Sluice_AnyTensor:$x, DenseI64ArrayAttr:$shape);
  let results = (outs Sluice_AnyTensor:$y);
  let hasVerifier = 1;
}

def Sluice_TransposeOp : Sluice_DifferentiableOp<"transpose", [], []> {
  let summary = "Permutes axes: axis i of the result is axis permutation[i] of the operand.";
  let arguments = (ins Sluice_FloatTensor:$x, DenseI64ArrayAttr:$permutation);
  let results = (outs Sluice_FloatTensor:$y);
  let hasVerifier = 1;
}

def Sluice_SliceOp : Sluice_DifferentiableOp<"slice", [], []> {
  let summary = "A box of the operand: sizes from offsets. A size of -1 reaches to the end.";
  let arguments = (ins Sluice_FloatTensor:$x, DenseI64ArrayAttr:$offsets, DenseI64ArrayAttr:$sizes);
  let results = (outs Sluice_FloatTensor:$y);
  let hasVerifier = 1;
}

def Sluice_PadOp : Sluice_DifferentiableOp<"pad", [], []> {
  let summary = "The operand at `offsets` inside a box of zeros of `shape` (the adjoint of slice). A size of -1 keeps the operand's.";
  let arguments = (ins Sluice_FloatTensor:$x, DenseI64ArrayAttr:$offsets, DenseI64ArrayAttr:$shape);
  let results = (outs Sluice_FloatTensor:$y);
  let hasVerifier = 1;
}

def Sluice_ConcatOp : Sluice_DifferentiableOp<"concat", [], []> {
  let summary = "Joins tensors along an axis.";
  let arguments = (ins Variadic<Sluice_FloatTensor>:$inputs, I64Attr:$axis);
  let results = (outs Sluice_FloatTensor:$y);
  let hasVerifier = 1;
}

def Sluice_GatherOp : Sluice_DifferentiableOp<"gather", [1], []> {
  let summary = "Rows of the first operand by ids: y[i, ...] = x[ids[i], ...].";
  let arguments = (ins Sluice_FloatTensor:$x, Sluice_IdTensor:$ids);
  let results = (outs Sluice_FloatTensor:$y);
  let hasVerifier = 1;
}

def Sluice_GatherGradientOp : Sluice_ValueOp<"gather_gradient"> {
  let summary = "Adjoint of gather: dx[r] = sum of dy[i] over ids[i] = r, in increasing i. `rows` is x's first size.";
  let arguments = (ins Sluice_IdTensor:$ids, Sluice_FloatTensor:$dy, I64Attr:$rows);
  let results = (outs Sluice_FloatTensor:$dx);
}

def Sluice_ConstantOp : Sluice_ValueOp<"constant"> {
  let summary = "A tensor of static shape filled with one number.";
  let arguments = (ins F64Attr:$value, DenseI64ArrayAttr:$shape);
  let results = (outs Sluice_FloatTensor:$result);
}

#endif // SLUICE_PRIMITIVE_TD
