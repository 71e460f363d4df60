// The questions that every op of the model dialect answers for itself (docs/design.md, section 4).
#ifndef SLUICE_INTERFACES_TD
#define SLUICE_INTERFACES_TD

include "mlir/IR/OpBase.td"

def Sluice_Countable : OpInterface<"Countable"> {
  let cppNamespace = "::sluice";
  let description = [{
    How much arithmetic the op does, as exact integers by class of operation. A FLOP is one scalar operation;
    a multiply-add inside a contraction is two, both in the class `contraction`. Shapes must be static.
  }];
  let methods = [
    InterfaceMethod<[{
      Counts of one execution: `ideal` (useful work: causal attention exact, routed rows only, kept weights only),
      `dense` (no mask, every expert, full attention) and `recompute` (work done again to save memory).
    }], "::sluice::OpCounts", "count", (ins)>,
  ];
}

def Sluice_Differentiable : OpInterface<"Differentiable"> {
  let cppNamespace = "::sluice";
  let description = [{
    The adjoint of the op: one cotangent per tensor operand, made of ops of this dialect, so that it is counted,
    interpreted and lowered like the forward. Adjoints exist for the opened form only (after flatten).
  }];
  let methods = [
    InterfaceMethod<[{
      Emits the adjoint. Reads cotangents of results and forward values through `adjoint`, and hands over one
      cotangent for each operand that needs one. Values not listed by the two methods below must not be read.
    }], "::llvm::LogicalResult", "buildAdjoint", (ins "::sluice::AdjointBuilder &":$adjoint)>,
    InterfaceMethod<"Indices of the operands whose forward values the adjoint reads.",
      "::llvm::ArrayRef<int64_t>", "adjointReadsOperands", (ins), "", [{ return {}; }]>,
    InterfaceMethod<"Indices of the results whose forward values the adjoint reads.",
      "::llvm::ArrayRef<int64_t>", "adjointReadsResults", (ins), "", [{ return {}; }]>,
  ];
}

def Sluice_Recomputable : OpInterface<"Recomputable"> {
  let cppNamespace = "::sluice";
  let description = [{
    Whether the op's results may be computed again in the backward instead of living until then, and at what cost.
    Every recomputation is bit for bit the same: ops have no hidden state and random draws are counter-based.
  }];
  let methods = [
    InterfaceMethod<"Cost of computing the results again.", "::sluice::RecomputeCost", "recomputeCost", (ins)>,
  ];
}

def Sluice_Evaluable : OpInterface<"Evaluable"> {
  let cppNamespace = "::sluice";
  let description = [{
    The op's meaning in float64 with plain loops: the oracle for every phase and every kernel.
  }];
  let methods = [
    InterfaceMethod<[{
      Computes the results from the operands' values. Errors (an id out of range, say) are emitted at the op.
    }], "::llvm::LogicalResult", "evaluate", (ins "::sluice::Evaluation &":$evaluation)>,
  ];
}

def Sluice_Lowerable : OpInterface<"Lowerable"> {
  let cppNamespace = "::sluice";
  let description = [{
    How the op reaches a device: either it decomposes into primitives (`map`, `reduce`, ...), which become generated
    kernels, or it names a command of the device library (docs/commands.md).
  }];
  let methods = [
    InterfaceMethod<"The library command, or an empty string if the op decomposes.",
      "std::string", "commandKind", (ins)>,
    InterfaceMethod<"Appends the command's attributes (integers, floats, strings) under their names in docs/commands.md.",
      "void", "commandAttributes", (ins "::mlir::NamedAttrList &":$attributes)>,
    InterfaceMethod<[{
      Builds the same values from primitives at the builder's insertion point; one value per result.
      Fails without a diagnostic if the op has no such form.
    }], "::llvm::LogicalResult", "decompose",
      (ins "::mlir::OpBuilder &":$builder, "::llvm::SmallVectorImpl<::mlir::Value> &":$results)>,
  ];
}

#endif // SLUICE_INTERFACES_TD
