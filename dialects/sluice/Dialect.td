// The model dialect: a language model as values without memory. See `description` for the tour.
#ifndef SLUICE_DIALECT_TD
#define SLUICE_DIALECT_TD

include "mlir/IR/OpBase.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/IR/RegionKindInterface.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "dialects/interfaces/Interfaces.td"

def Sluice_Dialect : Dialect {
  let name = "sluice";
  let cppNamespace = "::sluice";
  let summary = "Language models with routing, experts and masks as types and operations.";
  let description = [{
    Frontends (YAML specs, Hugging Face configs, graph files) produce this dialect; the phases of `passes/` rewrite it;
    the `plan` dialect gives it memory. It has no memory itself: values are tensors, and parameters are values.

    **What a file holds.** A module with one `sluice.graph`, the model: its inputs are token ids and targets, its body is
    ops and three notations, `repeat` (layers), `scope` (names) and `experts` (a body written for one expert).
    After the *flatten* phase the notations are gone, parameters are module-level `sluice.state` symbols, and after
    *differentiate* there is one graph an entry point (`init`, `accumulate`, `apply`, `eval`, `logits` and, where masks move,
    `update_topology`).

    **Dimensions.** Before *bind* a tensor's unknown sizes carry names in its encoding:
    `tensor<?x?x256xf32, #sluice.dims<batch, seq, _>>`. A name may be a product, `"2*batch*seq"`. Afterwards all is static.

    **Only tensors carry cotangents.** A routing assignment (`!sluice.routing`) is data without a gradient; gates and
    probabilities are tensors beside it.

    **Every op answers for itself**: count, adjoint, recompute cost, meaning in float64, lowering
    (`dialects/interfaces/Interfaces.td`). Ops that lack an answer are errors, listed together.

    Files: `Structure.td` (graph, parameters, notation), `Primitive.td` (map, reduce, contract, reshaping),
    `Dense.td` (embedding, linear, norms, attention), `Routing.td` (route, dispatch, experts' products, combine),
    `Loss.td`, `Training.td` (optimizer and initial values), `Sparsity.td` (masks).
  }];
  let useDefaultTypePrinterParser = 1;
  let useDefaultAttributePrinterParser = 1;
  let hasConstantMaterializer = 0;
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::math::MathDialect"];
}

// ---------------------------------------------------------------------------------------------------------------
// Attributes and types
// ---------------------------------------------------------------------------------------------------------------

class Sluice_Attr<string name, string attrMnemonic, list<Trait> traits = []> : AttrDef<Sluice_Dialect, name, traits> {
  let mnemonic = attrMnemonic;
}

def Sluice_DimsAttr : Sluice_Attr<"Dims", "dims"> {
  let summary = "Names of a tensor's dimensions, as its encoding.";
  let description = [{
    One entry a dimension: `_` for a static size, else a name or a product of names and integers in quotes.
    Example: `tensor<?x?x256xf32, #sluice.dims<batch, seq, _>>`, `tensor<?x256xf32, #sluice.dims<"2*batch*seq", _>>`.
  }];
  let parameters = (ins ArrayRefParameter<"::mlir::StringAttr">:$names);
  let hasCustomAssemblyFormat = 1;
}

def Sluice_NormalAttr : Sluice_Attr<"Normal", "normal"> {
  let summary = "Initial values drawn from a normal distribution with mean 0.";
  let description = "Draws are Philox normals keyed by the seed and the parameter's name. Example: `#sluice.normal<0.02>`.";
  let parameters = (ins "::mlir::FloatAttr":$standardDeviation);
  let assemblyFormat = "`<` $standardDeviation `>`";
}

def Sluice_FillAttr : Sluice_Attr<"Fill", "fill"> {
  let summary = "Initial values all equal.";
  let description = "Example: `#sluice.fill<1.0>`.";
  let parameters = (ins "::mlir::FloatAttr":$value);
  let assemblyFormat = "`<` $value `>`";
}

def Sluice_RandomMaskAttr : Sluice_Attr<"RandomMask", "random_mask"> {
  let summary = "The initial value of a mask: a random one, keyed by the seed and the mask's name.";
  let description = "Example: `#sluice.random_mask`. What is drawn says the op `random_mask`.";
}

def Sluice_OriginAttr : Sluice_Attr<"Origin", "origin"> {
  let summary = "Where an op comes from: data, not location.";
  let description = [{
    The discardable attribute `sluice.origin` of every op after *flatten*. `path` is the scope path with the layer number
    in place (`layers.0.attn`), `layer` the number or -1, `role` what it does for the model (attention, mlp, expert,
    router, norm, embedding, head, loss, residual, optimizer, ...), `direction` forward, backward, update or initialize.
    Diagnostics, ledger, kernel names, metrics and checkpoints read it.
    Example: `#sluice.origin<"layers.0.attn", 0, "attention", "forward">`.
  }];
  let parameters = (ins StringRefParameter<"scope path">:$path, "int64_t":$layer, StringRefParameter<"role">:$role,
                        StringRefParameter<"direction">:$direction);
  let assemblyFormat = "`<` $path `,` $layer `,` $role `,` $direction `>`";
}

class Sluice_Type<string name, string typeMnemonic> : TypeDef<Sluice_Dialect, name> {
  let mnemonic = typeMnemonic;
}

def Sluice_Routing : Sluice_Type<"Routing", "routing"> {
  let summary = "An assignment of tokens to experts (token choice, dropless).";
  let description = [{
    Each of `tokens` tokens chose `top_k` distinct experts of `experts`. The number of routed rows is static,
    tokens * top_k; only the split among experts is data. Rows are grouped by expert and, inside an expert, in
    increasing slot order (slot = token * top_k + j). The value has no gradient.
    Where every product of a weight skips zeros, `store-kept` keeps only the kept weights, their gradients and moments:
    their values in row-major order, matrix by matrix, [kept] or [experts, kept] ("kept form").
    `tokens` is a product of dimension names before *bind* and a number afterwards.
    Example: `!sluice.routing<experts = 4, top_k = 2, tokens = "batch*seq">`.
  }];
  let parameters = (ins "int64_t":$experts, "int64_t":$topK, "::mlir::StringAttr":$tokens);
  let assemblyFormat = "`<` `experts` `=` $experts `,` `top_k` `=` $topK `,` `tokens` `=` $tokens `>`";
  let extraClassDeclaration = [{
    /// Tokens as a number; only after *bind*.
    int64_t tokenCount() const;
    /// Routed rows, tokens * top_k; only after *bind*.
    int64_t rows() const { return tokenCount() * getTopK(); }
    /// Elements of the routing buffer of docs/commands.md: 3 * rows + experts + 1.
    int64_t bufferSize() const { return 3 * rows() + getExperts() + 1; }
  }];
}

def Sluice_Mask : Sluice_Type<"Mask", "mask"> {
  let summary = "A set of kept weights of a parameter.";
  let description = [{
    `shape` is the parameter's: one matrix [out, in], or one an expert, [experts, out, in]. Each matrix keeps `kept` of
    its weights; where a method changes that number (gradual pruning) it is the largest. `pattern` is "unstructured",
    "n:m" (n of each m neighbours along the last axis) or "block:RxC" (whole blocks of R rows and C columns). In memory a
    mask is one bit a weight, weight i in bit i % 8 of byte i / 8, up to a multiple of 8 bytes. The value has no gradient.
    Example: `!sluice.mask<[1024, 256], kept = 26214, "unstructured">`.
  }];
  let parameters = (ins ArrayRefParameter<"int64_t">:$shape, "int64_t":$kept, "::mlir::StringAttr":$pattern);
  let assemblyFormat = "`<` `[` $shape `]` `,` `kept` `=` $kept `,` $pattern `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Weights of one matrix, and matrices.
    int64_t matrixSize() const { return getShape().back() * getShape()[getShape().size() - 2]; }
    int64_t matrices() const { return getShape().size() == 3 ? getShape().front() : 1; }
    /// Kept weights of all matrices.
    int64_t keptWeights() const { return getKept() * matrices(); }
    /// Shape of a tensor that holds kept weights only: [kept], or [experts, kept].
    ::llvm::SmallVector<int64_t> keptShape() const;
    /// Bytes of the bits in memory, a multiple of 8.
    int64_t bufferBytes() const { return (matrixSize() * matrices() + 63) / 64 * 8; }
    /// The same for an expert's matrix, `experts` times.
    MaskType stacked(int64_t experts) const;
  }];
}

// ---------------------------------------------------------------------------------------------------------------
// Op bases
// ---------------------------------------------------------------------------------------------------------------

def Sluice_FloatTensor : Type<
    CPred<"::llvm::isa<::mlir::RankedTensorType>($_self) && "
          "::llvm::isa<::mlir::FloatType>(::llvm::cast<::mlir::RankedTensorType>($_self).getElementType())">,
    "ranked tensor of floats", "::mlir::RankedTensorType">;
def Sluice_IdTensor : Type<
    CPred<"::llvm::isa<::mlir::RankedTensorType>($_self) && "
          "::llvm::cast<::mlir::RankedTensorType>($_self).getElementType().isInteger(32)">,
    "ranked tensor of 32-bit ids", "::mlir::RankedTensorType">;
def Sluice_AnyTensor : Type<CPred<"::llvm::isa<::mlir::RankedTensorType>($_self)">, "ranked tensor",
    "::mlir::RankedTensorType">;
def Sluice_StateValue : AnyTypeOf<[Sluice_AnyTensor, Sluice_Mask]>;

class Sluice_Op<string opMnemonic, list<Trait> traits = []> : Op<Sluice_Dialect, opMnemonic, traits>;

/// A pure op on tensors that infers its result types, is counted, evaluated and lowered.
class Sluice_ValueOp<string opMnemonic, list<Trait> traits = []>
    : Sluice_Op<opMnemonic, traits # [Pure,
        DeclareOpInterfaceMethods<InferTypeOpInterface, ["inferReturnTypes"]>,
        DeclareOpInterfaceMethods<Sluice_Countable>,
        DeclareOpInterfaceMethods<Sluice_Recomputable>,
        DeclareOpInterfaceMethods<Sluice_Evaluable>,
        DeclareOpInterfaceMethods<Sluice_Lowerable>]> {
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
}

/// A value op with an adjoint. The lists name the operands and results whose forward values the adjoint reads, by index.
class Sluice_DifferentiableOp<string opMnemonic, list<int> readsOperands, list<int> readsResults, list<Trait> traits = []>
    : Sluice_ValueOp<opMnemonic, traits # [DeclareOpInterfaceMethods<Sluice_Differentiable, ["buildAdjoint"]>]> {
  code adjointReads = "static constexpr int64_t adjointOperandList[] = {" # !interleave(readsOperands # [-1], ", ") #
    "};\n    static constexpr int64_t adjointResultList[] = {" # !interleave(readsResults # [-1], ", ") # "};\n" # [{
    ::llvm::ArrayRef<int64_t> adjointReadsOperands() { return ::llvm::ArrayRef<int64_t>(adjointOperandList).drop_back(); }
    ::llvm::ArrayRef<int64_t> adjointReadsResults() { return ::llvm::ArrayRef<int64_t>(adjointResultList).drop_back(); }
  }];
  let extraClassDeclaration = adjointReads;
}

#endif // SLUICE_DIALECT_TD
