// Graphs, parameters, state and the three notations: repeat, scope, experts.
#ifndef SLUICE_STRUCTURE_TD
#define SLUICE_STRUCTURE_TD

include "dialects/sluice/Dialect.td"

def Sluice_GraphOp : Sluice_Op<"graph", [IsolatedFromAbove, Symbol, SingleBlock,
    RegionKindInterface, DeclareOpInterfaceMethods<RegionKindInterface, ["getRegionKind"]>]> {
  let summary = "A model, or one entry point of it.";
  let description = [{
    Block arguments are the inputs, `input_names` their names; the terminator `sluice.return` names the outputs.
    A model graph has inputs `tokens` and `targets` and outputs `logits` and `loss_sum` (the cross-entropy summed over
    counted targets). The training section travels on the module (docs/training.md).
    ```mlir
    sluice.graph @moe(%tokens: tensor<?x?xi32, #sluice.dims<batch, seq>>, %targets: ...) { ... }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, StrArrayAttr:$input_names);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::mlir::Block *getBlock() { return &getBody().front(); }
  }];
}

def Sluice_ReturnOp : Sluice_Op<"return", [Terminator, HasParent<"GraphOp">, Pure]> {
  let summary = "The named outputs of a graph.";
  let arguments = (ins Variadic<AnyType>:$values, StrArrayAttr:$names);
  let assemblyFormat = "($values^)? $names attr-dict (`:` type($values)^)?";
  let hasVerifier = 1;
}

def Sluice_ParamOp : Sluice_Op<"param", [DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "A trainable parameter.";
  let description = [{
    Its full name is the scope path and `name`, e.g. `layers.0.attn.wq`; inside `repeat` it exists once an iteration,
    inside `experts` once an expert. Sharing the value is tying. Not pure: two equal parameters are never merged.
    `checkpoint` is the tensor's name in checkpoints (Hugging Face names), where `{layer}` is the innermost repeat's
    iteration and `{expert}` splits the leading expert dimension; absent: the full name.
    `decay` says whether weight decay applies (by default: matrices yes, vectors no).
    A parameter that is written stacked, [experts, ...], outside of `experts` (a checkpoint that fuses gate and up, say)
    carries the attributes `sluice.experts` and `sluice.active` (the top_k of its routing), so that its active part counts.
  }];
  let arguments = (ins StrAttr:$name, AnyAttr:$init, StrAttr:$role, OptionalAttr<StrAttr>:$checkpoint,
                       OptionalAttr<BoolAttr>:$decay);
  let results = (outs Sluice_FloatTensor:$value);
  let assemblyFormat = "$name `init` $init `role` $role (`checkpoint` $checkpoint^)? (`decay` $decay^)? attr-dict `:` type($value)";
  let hasVerifier = 1;
}

def Sluice_RepeatOp : Sluice_Op<"repeat", [SingleBlock, RecursiveMemoryEffects]> {
  let summary = "Layers: the body, `times` times, each time with parameters of its own.";
  let description = [{
    Values carried from one iteration to the next are block arguments and yields; other values may be captured.
    Flatten unrolls it; the iteration's number, counted from `first`, becomes part of every name, so that layers that
    differ are several repeats of one name: "layers" from 0, "layers" from 1.
  }];
  let arguments = (ins StrAttr:$name, I64Attr:$times, Variadic<AnyType>:$inits, DefaultValuedAttr<I64Attr, "0">:$first);
  let results = (outs Variadic<AnyType>:$results);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
}

def Sluice_ScopeOp : Sluice_Op<"scope", [SingleBlock, RecursiveMemoryEffects, NoRegionArguments]> {
  let summary = "A name around some ops: one more step of the scope path.";
  let description = "`role` is what the ops inside do for the model; the ledger groups by it.";
  let arguments = (ins StrAttr:$name, OptionalAttr<StrAttr>:$role);
  let results = (outs Variadic<AnyType>:$results);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$name (`role` $role^)? attr-dict-with-keyword (`->` type($results)^)? $body";
  let hasVerifier = 1;
}

def Sluice_ExpertsOp : Sluice_Op<"experts", [SingleBlock, RecursiveMemoryEffects]> {
  let summary = "A network written for one expert, applied to each expert's rows.";
  let description = [{
    Inputs are dispatched rows ([rows, ...], grouped by expert by the same assignment); the body sees them with the same
    types and may use `linear`, elementwise and row-wise ops. Parameters inside exist once an expert. Flatten opens it:
    `linear` becomes `grouped_linear` over stacked [experts, ...] parameters, the rest stays.
  }];
  let arguments = (ins Sluice_Routing:$routing, Variadic<Sluice_FloatTensor>:$inputs);
  let results = (outs Variadic<Sluice_FloatTensor>:$results);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
}

def Sluice_YieldOp : Sluice_Op<"yield", [Terminator, Pure, ReturnLike]> {
  let summary = "The values that leave a repeat, scope, experts, map or kernel body.";
  let arguments = (ins Variadic<AnyType>:$values);
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
}

def Sluice_AuxiliaryLossOp : Sluice_Op<"auxiliary_loss", []> {
  let summary = "Adds `weight` times a scalar to the objective.";
  let description = [{
    The value is a mean over the micro-batch's counted tokens. Flatten sums all values of one `name` over the layers,
    in layer order; over micro-batches the objective weights them by counted tokens (docs/training.md).
  }];
  let arguments = (ins StrAttr:$name, Sluice_FloatTensor:$value, F64Attr:$weight);
  let assemblyFormat = "$name $value `weight` $weight attr-dict `:` type($value)";
  let hasVerifier = 1;
}

def Sluice_ObserveOp : Sluice_Op<"observe", []> {
  let summary = "Marks a value that the runtime reports; an effect, so it is never dropped.";
  let description = "Flatten turns it into the graph output `<name>/<scope path>`. It costs no host synchronisation.";
  let arguments = (ins StrAttr:$name, Sluice_AnyTensor:$value);
  let assemblyFormat = "$name $value attr-dict `:` type($value)";
}

def Sluice_StateOp : Sluice_Op<"state", [Symbol]> {
  let summary = "A tensor that outlives a step: a parameter, its gradient sum, an optimizer moment.";
  let description = [{
    Module-level; shared by all entry points. `role` is parameter, gradient, exp_avg or exp_avg_sq; of masked parameters
    also mask (of mask type), age (steps since a weight was grown) or dense_gradient. `parameter` names the parameter it
    belongs to (itself for a parameter); `kind` is the parameter's role in the model (embedding, attention,
    expert, ...). With the attribute `sluice.kept_by`, the name of a mask state, its tensor is in kept form. `experts` is the leading expert count of a stacked parameter, else 0; `active` the top_k of its routing.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttr:$type, AnyAttr:$init, StrAttr:$role, StrAttr:$parameter,
                       StrAttr:$kind, StrAttr:$checkpoint, BoolAttr:$decay, I64Attr:$experts, I64Attr:$active);
  let assemblyFormat = "$sym_name `:` $type `init` $init `role` $role `of` $parameter `kind` $kind `checkpoint` $checkpoint `decay` $decay `experts` $experts `active` $active attr-dict";
  let hasVerifier = 1;
}

def Sluice_ReadOp : Sluice_Op<"read", [DeclareOpInterfaceMethods<MemoryEffectsOpInterface>,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "The present value of a state.";
  let arguments = (ins FlatSymbolRefAttr:$state);
  let results = (outs Sluice_StateValue:$value);
  let assemblyFormat = "$state attr-dict `:` type($value)";
}

def Sluice_WriteOp : Sluice_Op<"write", [DeclareOpInterfaceMethods<MemoryEffectsOpInterface>,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "Replaces a state's value.";
  let arguments = (ins FlatSymbolRefAttr:$state, Sluice_StateValue:$value);
  let assemblyFormat = "$state `,` $value attr-dict `:` type($value)";
}

def Sluice_AccumulateOp : Sluice_Op<"accumulate", [DeclareOpInterfaceMethods<MemoryEffectsOpInterface>,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>, DeclareOpInterfaceMethods<Sluice_Countable>]> {
  let summary = "Adds a tensor to a state; the plan folds it into the op that produced the tensor where it can.";
  let arguments = (ins FlatSymbolRefAttr:$state, Sluice_FloatTensor:$value);
  let assemblyFormat = "$state `,` $value attr-dict `:` type($value)";
}

def Sluice_KernelOp : Sluice_Op<"kernel", [IsolatedFromAbove, SingleBlock, RecursiveMemoryEffects]> {
  let summary = "Ops that run as one kernel; they stay inside, so counting, interpreting and printing go on working.";
  let description = [{
    `kind` is `rows` or `columns` for generated kernels (elementwise and row-reduction, or column-reduction regions) or
    the library command that stands for the whole body, e.g. `experts_up` (docs/commands.md); then `settings` are the
    command's, and operands and results are in the command's order.
  }];
  let arguments = (ins StrAttr:$kind, Variadic<AnyType>:$inputs, DictionaryAttr:$settings);
  let results = (outs Variadic<AnyType>:$results);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
}

#endif // SLUICE_STRUCTURE_TD
