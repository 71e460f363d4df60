// Losses are explicit values, and so is what the runtime reports of routing.
#ifndef SLUICE_LOSS_TD
#define SLUICE_LOSS_TD

include "dialects/sluice/Dialect.td"

def Sluice_CrossEntropyOp : Sluice_DifferentiableOp<"cross_entropy", [0, 1], []> {
  let summary = "Sum over counted targets of logsumexp(logits[t]) - logits[t, target]; targets equal to ignore_index do not count.";
  let arguments = (ins Sluice_FloatTensor:$logits, Sluice_IdTensor:$targets, DefaultValuedAttr<I64Attr, "-100">:$ignore_index);
  let results = (outs Sluice_FloatTensor:$loss_sum);
  let hasVerifier = 1;
}

def Sluice_CrossEntropyGradientOp : Sluice_ValueOp<"cross_entropy_gradient"> {
  let summary = "dlogits = g * (softmax(logits) - onehot(target)) at counted targets, else 0; NaN where the loss is not finite.";
  let arguments = (ins Sluice_FloatTensor:$logits, Sluice_IdTensor:$targets, Sluice_FloatTensor:$g,
                       DefaultValuedAttr<I64Attr, "-100">:$ignore_index);
  let results = (outs Sluice_FloatTensor:$dlogits);
  let hasVerifier = 1;
}

def Sluice_CountTargetsOp : Sluice_ValueOp<"count_targets"> {
  let summary = "The number of counted targets, as a scalar.";
  let arguments = (ins Sluice_IdTensor:$targets, DefaultValuedAttr<I64Attr, "-100">:$ignore_index);
  let results = (outs Sluice_FloatTensor:$count);
}

def Sluice_SwitchBalanceOp : Sluice_DifferentiableOp<"switch_balance", [0, 1, 2], []> {
  let summary = "E * sum_i f_i P_i: 1 for a uniform router, for any top_k.";
  let description = [{
    f_i is expert i's share of the counted tokens' assignments (per assignment: divided by tokens * top_k; no gradient),
    P_i the mean probability over counted tokens. `normalize` divides each token's probabilities by their sum first
    (sigmoid scores). Tokens whose target is ignored are routed but do not count. No counted token: 0.
  }];
  let arguments = (ins Sluice_FloatTensor:$probabilities, Sluice_Routing:$routing, Sluice_IdTensor:$targets,
                       DefaultValuedAttr<BoolAttr, "false">:$normalize, DefaultValuedAttr<I64Attr, "-100">:$ignore_index);
  let results = (outs Sluice_FloatTensor:$loss);
  let hasVerifier = 1;
}

def Sluice_SwitchBalanceGradientOp : Sluice_ValueOp<"switch_balance_gradient"> {
  let summary = "Adjoint of switch_balance with respect to the probabilities.";
  let arguments = (ins Sluice_FloatTensor:$probabilities, Sluice_Routing:$routing, Sluice_IdTensor:$targets,
                       Sluice_FloatTensor:$g, BoolAttr:$normalize, DefaultValuedAttr<I64Attr, "-100">:$ignore_index);
  let results = (outs Sluice_FloatTensor:$dprobabilities);
  let hasVerifier = 1;
}

def Sluice_RouterZOp : Sluice_DifferentiableOp<"router_z", [0, 1], []> {
  let summary = "Mean over counted tokens of logsumexp(logits) squared (ST-MoE).";
  let arguments = (ins Sluice_FloatTensor:$logits, Sluice_IdTensor:$targets, DefaultValuedAttr<I64Attr, "-100">:$ignore_index);
  let results = (outs Sluice_FloatTensor:$loss);
  let hasVerifier = 1;
}

def Sluice_RouterZGradientOp : Sluice_ValueOp<"router_z_gradient"> {
  let summary = "dlogits = g * 2 logsumexp(logits) softmax(logits) / counted tokens.";
  let arguments = (ins Sluice_FloatTensor:$logits, Sluice_IdTensor:$targets, Sluice_FloatTensor:$g,
                       DefaultValuedAttr<I64Attr, "-100">:$ignore_index);
  let results = (outs Sluice_FloatTensor:$dlogits);
  let hasVerifier = 1;
}

def Sluice_RoutingStatisticsOp : Sluice_ValueOp<"routing_statistics"> {
  let summary = "What a router did, over counted tokens: [experts + 4].";
  let description = [{
    The count of each expert, then sums over counted tokens of: entropy of the (normalised) probabilities in nats,
    logsumexp(logits), the largest probability, and 1 (the number of counted tokens).
  }];
  let arguments = (ins Sluice_FloatTensor:$logits, Sluice_FloatTensor:$probabilities, Sluice_Routing:$routing,
                       Sluice_IdTensor:$targets, DefaultValuedAttr<I64Attr, "-100">:$ignore_index);
  let results = (outs Sluice_FloatTensor:$statistics);
  let hasVerifier = 1;
}

#endif // SLUICE_LOSS_TD
