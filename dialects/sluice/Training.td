// Initial values and the optimizer, as ops: counted, planned and interpreted like the model.
#ifndef SLUICE_TRAINING_TD
#define SLUICE_TRAINING_TD

include "dialects/sluice/Dialect.td"

def Sluice_RandomNormalOp : Sluice_ValueOp<"random_normal"> {
  let summary = "Normal draws: Philox keyed by (seed, stream name, element); mean 0. Drawn in double, rounded to float32.";
  let arguments = (ins Sluice_AnyTensor:$seed, StrAttr:$stream, F64Attr:$standard_deviation, TypeAttr:$type);
  let results = (outs Sluice_FloatTensor:$values);
  let hasVerifier = 1;
}

def Sluice_GlobalNormOp : Sluice_ValueOp<"global_norm"> {
  let summary = "sqrt of the sum of squares over all operands.";
  let arguments = (ins Variadic<Sluice_FloatTensor>:$gradients);
  let results = (outs Sluice_FloatTensor:$norm);
  let hasVerifier = 1;
}

def Sluice_AdamWOp : Sluice_ValueOp<"adamw"> {
  let summary = "One AdamW update with clipping by the global norm (Loshchilov and Hutter 2019).";
  let description = [{
    g = gradient / tokens; if clip > 0 and norm/tokens > clip: g *= clip / (norm/tokens + 1e-6).
    exp_avg = beta1 exp_avg + (1 - beta1) g; exp_avg_sq = beta2 exp_avg_sq + (1 - beta2) g^2;
    parameter -= learning_rate * weight_decay * parameter, then
    parameter -= learning_rate * (exp_avg / (1 - beta1^step)) / (sqrt(exp_avg_sq / (1 - beta2^step)) + epsilon).
    A norm that is not finite leaves all three as they are. The fourth result is the gradient: zero, after such a norm NaN.
    `gradient` and `norm` are of the raw sums over the step's tokens.
  }];
  let arguments = (ins Sluice_FloatTensor:$parameter, Sluice_FloatTensor:$exp_avg, Sluice_FloatTensor:$exp_avg_sq,
                       Sluice_FloatTensor:$gradient, Sluice_FloatTensor:$learning_rate, Sluice_FloatTensor:$step,
                       Sluice_FloatTensor:$tokens, Sluice_FloatTensor:$norm, F64Attr:$beta1, F64Attr:$beta2,
                       F64Attr:$epsilon, F64Attr:$weight_decay, F64Attr:$clip);
  let results = (outs Sluice_FloatTensor:$new_parameter, Sluice_FloatTensor:$new_exp_avg,
                      Sluice_FloatTensor:$new_exp_avg_sq, Sluice_FloatTensor:$new_gradient);
  let hasVerifier = 1;
}

#endif // SLUICE_TRAINING_TD
