// Masks: their source, their products' adjoints, the optimizer's pass over kept weights and the update of a mask.
#ifndef SLUICE_SPARSITY_TD
#define SLUICE_SPARSITY_TD

include "dialects/sluice/Dialect.td"

def Sluice_ParamMaskOp : Sluice_Op<"param_mask", [DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "The mask of the parameter `parameter` of the same scope.";
  let description = [{
    A state of the model like the parameter: its full name is the parameter's with `.mask` appended, inside `repeat` it
    exists once an iteration, inside `experts` once an expert. Initial values of the parameter are zero where the mask
    does not keep them, and they stay zero. Example: `%m = sluice.param_mask "wq" : !sluice.mask<[8, 8], kept = 32, "unstructured">`.
  }];
  let arguments = (ins StrAttr:$parameter);
  let results = (outs Sluice_Mask:$mask);
  let assemblyFormat = "$parameter attr-dict `:` type($mask)";
}

def Sluice_RandomMaskOp : Sluice_ValueOp<"random_mask"> {
  let summary = "A random mask with exactly `kept` weights in each matrix.";
  let description = [{
    Weight i of the whole tensor has the key bits(i) of the Philox stream of (seed, stream name). Each matrix keeps the
    `kept` smallest pairs (key, i); an n:m pattern keeps its share of each group of m; a block pattern compares the
    keys of the blocks' first weights and keeps whole blocks.
  }];
  let arguments = (ins Sluice_AnyTensor:$seed, StrAttr:$stream, TypeAttr:$type);
  let results = (outs Sluice_Mask:$mask);
  let hasVerifier = 1;
}

def Sluice_ApplyMaskOp : Sluice_ValueOp<"apply_mask"> {
  let summary = "x where the mask keeps, zero elsewhere (a selection: what is not kept is not read).";
  let description = "With `kept_only` the result is in kept form: the kept values alone, in their order.";
  let arguments = (ins Sluice_FloatTensor:$x, Sluice_Mask:$mask, UnitAttr:$kept_only);
  let results = (outs Sluice_FloatTensor:$y);
  let hasVerifier = 1;
}

def Sluice_MaskedInputGradientOp : Sluice_ValueOp<"masked_input_gradient"> {
  let summary = "Adjoint of a masked linear for x: dx = dy w over kept weights; w is [out, in], or in kept form.";
  let arguments = (ins Sluice_FloatTensor:$dy, Sluice_FloatTensor:$weight, Sluice_Mask:$mask);
  let results = (outs Sluice_FloatTensor:$dx);
  let hasVerifier = 1;
}

def Sluice_MaskedWeightGradientOp : Sluice_ValueOp<"masked_weight_gradient"> {
  let summary = "Adjoint of a masked linear for its weight: dw = dy^T x at kept weights, zero elsewhere.";
  let description = "With `kept_only` dw is in kept form.";
  let arguments = (ins Sluice_FloatTensor:$dy, Sluice_FloatTensor:$x, Sluice_Mask:$mask, UnitAttr:$kept_only);
  let results = (outs Sluice_FloatTensor:$dweight);
  let hasVerifier = 1;
}

def Sluice_MaskedAdamWOp : Sluice_ValueOp<"masked_adamw"> {
  let summary = "AdamW over the kept weights of a parameter; the others and their moments are zero.";
  let description = [{
    As `adamw`, for kept weights only. Where the mask does not keep, all results are zero, whatever the operands hold.
    With an `age`, which is one number a weight, age += 1 first and takes the place of `step` in both corrections; with
    `ramp` > 0 then exp_avg *= min(age / ramp, 1) before it is used (a damped start of weights that were just grown).
    Parameter, moments, gradient and age may be in kept form. A norm that is not finite leaves kept weights, their moments
    and ages as they are. The fourth result is the gradient: zero, after a norm that is not finite NaN where weights are
    kept; the last is the new age.
  }];
  let arguments = (ins Sluice_FloatTensor:$parameter, Sluice_FloatTensor:$exp_avg, Sluice_FloatTensor:$exp_avg_sq,
                       Sluice_FloatTensor:$gradient, Sluice_Mask:$mask, Sluice_FloatTensor:$learning_rate,
                       Sluice_FloatTensor:$step, Sluice_FloatTensor:$tokens, Sluice_FloatTensor:$norm,
                       Optional<Sluice_FloatTensor>:$age, F64Attr:$beta1, F64Attr:$beta2, F64Attr:$epsilon,
                       F64Attr:$weight_decay, F64Attr:$clip, F64Attr:$ramp);
  let results = (outs Sluice_FloatTensor:$new_parameter, Sluice_FloatTensor:$new_exp_avg,
                      Sluice_FloatTensor:$new_exp_avg_sq, Sluice_FloatTensor:$new_gradient,
                      Optional<Sluice_FloatTensor>:$new_age);
  let hasVerifier = 1;
}

def Sluice_UpdateMaskOp : Sluice_ValueOp<"update_mask", [AttrSizedOperandSegments]> {
  let summary = "One update of a mask: drop, then grow; matrix by matrix.";
  let description = [{
    What moves are units: weights, or the blocks of a block pattern, each named by its first weight. Let a matrix keep k
    units. `amount` is an integer in billionths (so that counts are exact on every device).
    **Drop.** With `grow` random or gradient p = ceil(k amount / 10^9) kept units go, at most k. `drop = "magnitude"`: the
    smallest |w|; of blocks the smallest norms, compared as sums of squares in float64, row by row. `drop = "signed"` (not
    for blocks): of the kept weights below zero and of the others each ceil(their number amount / 10^9), those nearest to
    zero. `drop = "soft"`: those that stay are a sample without replacement with probabilities proportional to |w|^3 (of
    blocks: to the cube of the norm), drawn from the Philox stream of (seed, stream with ".drop", step) as
    runtime/support/SoftDrop.h says; zeros go first. Ties go to the lower index; NaN is dropped last.
    **Prune.** With `grow = "none"` (gradual pruning) as many go, the smallest first, as leave K - floor((K - target) amount /
    10^9), K being the mask type's `kept` and both counted in units.
    **Grow.** Then units that are not kept are added until k are; one that was just dropped may come back at once.
    `random`: those with the smallest (bits(i) of the Philox stream of (seed, stream, step), i), i being the first weight's
    index in the whole tensor. `gradient`: those with the largest |dense_gradient| (of blocks: norms of it), ties to the
    lower index; then those where it is zero, as of an expert without rows, by bits(i) / 4 as for `random`; NaN last.
    **n:m.** Weights are dropped from the matrix as if it had no groups; then each group grows as many of its own as it lost, so
    that it keeps n of m after every update. Gradual pruning leaves each group the same number, m falling to n.
    **Values.** Added weights start at zero with zero moments and the age `restart`, also those that had been kept before;
    dropped weights, their moments and ages are zero. Parameter, moments and age may be in kept form, unless this prunes.
  }];
  let arguments = (ins Sluice_Mask:$mask, Sluice_FloatTensor:$parameter, Sluice_FloatTensor:$exp_avg,
                       Sluice_FloatTensor:$exp_avg_sq, Sluice_AnyTensor:$seed, Sluice_AnyTensor:$step,
                       Sluice_AnyTensor:$amount, Optional<Sluice_FloatTensor>:$age,
                       Optional<Sluice_FloatTensor>:$dense_gradient, StrAttr:$stream, StrAttr:$drop, StrAttr:$grow,
                       I64Attr:$target, F64Attr:$restart);
  let results = (outs Sluice_Mask:$new_mask, Sluice_FloatTensor:$new_parameter, Sluice_FloatTensor:$new_exp_avg,
                      Sluice_FloatTensor:$new_exp_avg_sq, Optional<Sluice_FloatTensor>:$new_age);
  let assemblyFormat = [{
    $mask `,` $parameter `,` $exp_avg `,` $exp_avg_sq `at` $seed `,` $step `,` $amount (`age` $age^)?
    (`dense_gradient` $dense_gradient^)? attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

#endif // SLUICE_SPARSITY_TD
