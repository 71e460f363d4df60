// Routing with one written meaning, and the products of experts.
#ifndef SLUICE_ROUTING_TD
#define SLUICE_ROUTING_TD

include "dialects/sluice/Dialect.td"

def Sluice_RouteOp : Sluice_DifferentiableOp<"route", [], [0, 1, 2]> {
  let summary = "Token choice: each token picks its top_k experts.";
  let description = [{
    logits [..., experts], leading dimensions are tokens. Probabilities are softmax(logits) over all experts, or
    sigmoid(logits). **Selection compares keys**, ties go to the lower expert index, NaN comes last. The key is the logit
    (both scores are monotone in it, so rounding of a softmax cannot make ties); with a `bias` [experts], or where groups
    are scored by a sum, it is probability + bias. The bias chooses and does nothing else: it gets no gradient.
    With `groups` > 1 the experts, in order, form that many groups of one size. A group's score is the maximum of its
    keys (`group_score = "maximum"`) or the sum of its two best (`"sum_of_best_two"`); experts outside of the
    `groups_kept` best groups (same order of comparison) cannot be chosen, whatever their key.
    Gates are the probabilities (without the bias) of the chosen experts, best key first; `renormalize` divides them by
    (their sum + `epsilon`); then they are multiplied by `scale`. Dropless: every choice gets a row.
    With top_k = 1 and softmax or sigmoid renormalised the gate is constant, so cross-entropy gives the router no
    gradient: refused unless `allow_constant_gate`.
    Results: the assignment, gates [..., top_k], probabilities [..., experts].
  }];
  let arguments = (ins Sluice_FloatTensor:$logits, Optional<Sluice_FloatTensor>:$bias, I64Attr:$top_k, StrAttr:$score,
                       BoolAttr:$renormalize,
                       DefaultValuedAttr<F64Attr, "0.0">:$epsilon, DefaultValuedAttr<F64Attr, "1.0">:$scale,
                       DefaultValuedAttr<BoolAttr, "false">:$allow_constant_gate,
                       DefaultValuedAttr<I64Attr, "1">:$groups, DefaultValuedAttr<I64Attr, "1">:$groups_kept,
                       DefaultValuedStrAttr<StrAttr, "maximum">:$group_score);
  let results = (outs Sluice_Routing:$routing, Sluice_FloatTensor:$gates, Sluice_FloatTensor:$probabilities);
  let hasVerifier = 1;
  let extraClassDeclaration = adjointReads # [{
    bool sumsGroups() { return getGroupScore() == "sum_of_best_two"; }
    /// Whether the selection key is probability + bias, not the logit.
    bool comparesProbabilities() { return getBias() || (getGroups() > 1 && sumsGroups()); }
  }];
}

def Sluice_RouteGradientOp : Sluice_ValueOp<"route_gradient"> {
  let summary = "Adjoint of route: cotangent of the logits from those of gates and probabilities; ids are constants.";
  let arguments = (ins Sluice_FloatTensor:$probabilities, Sluice_FloatTensor:$gates, Sluice_Routing:$routing,
                       Sluice_FloatTensor:$dgates, Sluice_FloatTensor:$dprobabilities, StrAttr:$score,
                       BoolAttr:$renormalize, F64Attr:$epsilon, F64Attr:$scale);
  let results = (outs Sluice_FloatTensor:$dlogits);
  let hasVerifier = 1;
}

def Sluice_DispatchOp : Sluice_DifferentiableOp<"dispatch", [0, 1, 2], [], []> {
  let summary = "Rows grouped by expert: row r is x of r's token (times its gate, if gates are given).";
  let description = "x [..., d] with tokens leading; result [rows, d]. The adjoint of x is `combine`.";
  let arguments = (ins Sluice_FloatTensor:$x, Sluice_Routing:$routing, Optional<Sluice_FloatTensor>:$gates);
  let results = (outs Sluice_FloatTensor:$rows);
  let assemblyFormat = "$x `by` $routing (`gates` $gates^)? attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Sluice_CombineOp : Sluice_DifferentiableOp<"combine", [0, 1, 2], [], []> {
  let summary = "y[t] = sum over slots j = 0 .. top_k-1, in that order, of (gate) rows[row of slot (t, j)].";
  let description = "rows [R, d]; result [tokens..., d] where `shape` gives the token dimensions' result type. Adjoints: dispatch, and `combine_gate_gradient`.";
  let arguments = (ins Sluice_FloatTensor:$rows, Sluice_Routing:$routing, Optional<Sluice_FloatTensor>:$gates);
  let results = (outs Sluice_FloatTensor:$y);
  let assemblyFormat = "$rows `by` $routing (`gates` $gates^)? attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Sluice_CombineGateGradientOp : Sluice_ValueOp<"combine_gate_gradient"> {
  let summary = "dgates[t, j] = <dy[t], rows[row of slot (t, j)]>; multiplications and additions, not a contraction.";
  let arguments = (ins Sluice_FloatTensor:$dy, Sluice_FloatTensor:$rows, Sluice_Routing:$routing);
  let results = (outs Sluice_FloatTensor:$dgates);
  let hasVerifier = 1;
}

def Sluice_GroupedLinearOp : Sluice_DifferentiableOp<"grouped_linear", [0, 1, 2], [], [AttrSizedOperandSegments]> {
  let summary = "y[r] = x[r] w[expert of r]^T (+ bias[expert of r]): one product an expert over its rows.";
  let description = [{
    x [R, in], weight [experts, out, in] ([experts, in, out] with `transpose_weight`, the form of the adjoint).
    Dense counts read every expert: tokens * experts rows. The optional mask has the weight's shape, a set of kept weights
    for each expert: only these are multiplied, and the adjoint asks for their gradients only. With a mask the weight may be
    in kept form.
  }];
  let arguments = (ins Sluice_FloatTensor:$x, Sluice_FloatTensor:$weight, Sluice_Routing:$routing,
                       Optional<Sluice_FloatTensor>:$bias, Optional<Sluice_Mask>:$mask,
                       DefaultValuedAttr<BoolAttr, "false">:$transpose_weight);
  let results = (outs Sluice_FloatTensor:$y);
  let assemblyFormat = "$x `,` $weight `by` $routing (`bias` $bias^)? (`mask` $mask^)? attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Sluice_GroupedWeightGradientOp : Sluice_ValueOp<"grouped_weight_gradient"> {
  let summary = "dw[e] = sum over e's rows of dy[r] x[r]^T, [experts, out, in]; an expert without rows gets zeros.";
  let description = "With a mask of dw's shape only kept weights have a gradient; the others are zero. With `kept_only` dw is in kept form.";
  let arguments = (ins Sluice_FloatTensor:$dy, Sluice_FloatTensor:$x, Sluice_Routing:$routing,
                       Optional<Sluice_Mask>:$mask, UnitAttr:$kept_only);
  let results = (outs Sluice_FloatTensor:$dweight);
  let hasVerifier = 1;
}

def Sluice_GroupedSumOp : Sluice_ValueOp<"grouped_sum"> {
  let summary = "db[e] = sum of e's rows of dy, [experts, out] (adjoint of grouped_linear's bias).";
  let arguments = (ins Sluice_FloatTensor:$dy, Sluice_Routing:$routing);
  let results = (outs Sluice_FloatTensor:$sums);
  let hasVerifier = 1;
}

#endif // SLUICE_ROUTING_TD
