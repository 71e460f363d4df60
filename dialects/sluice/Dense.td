// The ops of a dense decoder.
#ifndef SLUICE_DENSE_TD
#define SLUICE_DENSE_TD

include "dialects/sluice/Dialect.td"

def Sluice_EmbeddingOp : Sluice_DifferentiableOp<"embedding", [0, 1], []> {
  let summary = "Rows of a table by token id: y[b, s, :] = table[ids[b, s], :].";
  let description = "The adjoint reads the ids and the table's shape only. A lookup costs no FLOPs (class `index`).";
  let arguments = (ins Sluice_IdTensor:$ids, Sluice_FloatTensor:$table);
  let results = (outs Sluice_FloatTensor:$y);
  let hasVerifier = 1;
}

def Sluice_EmbeddingGradientOp : Sluice_ValueOp<"embedding_gradient"> {
  let summary = "Adjoint of embedding: the sum of dy over each id's tokens, in increasing token order.";
  let arguments = (ins Sluice_IdTensor:$ids, Sluice_FloatTensor:$dy, I64Attr:$vocabulary);
  let results = (outs Sluice_FloatTensor:$dtable);
}

def Sluice_LinearOp : Sluice_DifferentiableOp<"linear", [0, 1], [], [AttrSizedOperandSegments]> {
  let summary = "y = x w^T (+ bias): w is [out, in], as checkpoints store it.";
  let description = [{
    `x` is [..., in]. The optional mask is a set of kept weights: the product uses kept weights only, and the adjoint
    asks for a weight gradient at kept positions only.
  }];
  let arguments = (ins Sluice_FloatTensor:$x, Sluice_FloatTensor:$weight, Optional<Sluice_FloatTensor>:$bias,
                       Optional<Sluice_Mask>:$mask);
  let results = (outs Sluice_FloatTensor:$y);
  let assemblyFormat = "$x `,` $weight (`bias` $bias^)? (`mask` $mask^)? attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Sluice_RmsNormOp : Sluice_DifferentiableOp<"rms_norm", [0, 1], [1]> {
  let summary = "y = x / sqrt(mean(x^2) + epsilon) * gain, over the last axis.";
  let description = "The second result is the reciprocal root mean square, [..., 1], which the adjoint reads.";
  let arguments = (ins Sluice_FloatTensor:$x, Sluice_FloatTensor:$gain, F64Attr:$epsilon);
  let results = (outs Sluice_FloatTensor:$y, Sluice_FloatTensor:$reciprocal);
  let hasVerifier = 1;
}

def Sluice_RopeOp : Sluice_DifferentiableOp<"rope", [], []> {
  let summary = "Rotary positions, half-split: pair (i, i + h/2) of a head turns by position * theta^(-2i/h).";
  let description = "x is [batch, seq, heads * head_dim]. `inverse` turns back, which is the adjoint (the rotation is orthogonal).";
  let arguments = (ins Sluice_FloatTensor:$x, I64Attr:$heads, F64Attr:$theta, DefaultValuedAttr<BoolAttr, "false">:$inverse);
  let results = (outs Sluice_FloatTensor:$y);
  let hasVerifier = 1;
}

def Sluice_AttentionOp : Sluice_DifferentiableOp<"attention", [0, 1, 2], [0, 1]> {
  let summary = "out = softmax(scale * q k^T) v, head by head.";
  let description = [{
    q is [batch, seq, heads * head_dim], k and v are [batch, seq, kv_heads * head_dim]; query head i reads key/value head
    i / (heads / kv_heads). `causal`: position s reads positions 0..s. The second result is the logsumexp of the scaled
    scores, [batch, heads, seq]; the adjoint recomputes the scores from it.
  }];
  let arguments = (ins Sluice_FloatTensor:$q, Sluice_FloatTensor:$k, Sluice_FloatTensor:$v, I64Attr:$heads,
                       I64Attr:$kv_heads, BoolAttr:$causal, F64Attr:$scale);
  let results = (outs Sluice_FloatTensor:$out, Sluice_FloatTensor:$logsumexp);
  let hasVerifier = 1;
}

def Sluice_AttentionGradientOp : Sluice_ValueOp<"attention_gradient"> {
  let summary = "Adjoint of attention: dq, dk, dv.";
  let arguments = (ins Sluice_FloatTensor:$q, Sluice_FloatTensor:$k, Sluice_FloatTensor:$v, Sluice_FloatTensor:$out,
                       Sluice_FloatTensor:$logsumexp, Sluice_FloatTensor:$dout, I64Attr:$heads, I64Attr:$kv_heads,
                       BoolAttr:$causal, F64Attr:$scale);
  let results = (outs Sluice_FloatTensor:$dq, Sluice_FloatTensor:$dk, Sluice_FloatTensor:$dv);
}

def Sluice_SwiGluOp : Sluice_DifferentiableOp<"swiglu", [0, 1], []> {
  let summary = "y = silu(gate) * up, silu(z) = z / (1 + exp(-z)).";
  let arguments = (ins Sluice_FloatTensor:$gate, Sluice_FloatTensor:$up);
  let results = (outs Sluice_FloatTensor:$y);
  let hasVerifier = 1;
}

def Sluice_ActivationOp : Sluice_DifferentiableOp<"activation", [0], []> {
  let summary = "An elementwise function by name: silu, gelu (erf form), gelu_tanh, relu, relu_squared, tanh or sigmoid.";
  let arguments = (ins Sluice_FloatTensor:$x, StrAttr:$function);
  let results = (outs Sluice_FloatTensor:$y);
  let hasVerifier = 1;
}

def Sluice_SoftmaxOp : Sluice_DifferentiableOp<"softmax", [], [0]> {
  let summary = "y = exp(x - logsumexp(x)) over the last axis.";
  let arguments = (ins Sluice_FloatTensor:$x);
  let results = (outs Sluice_FloatTensor:$y);
}

def Sluice_AddOp : Sluice_DifferentiableOp<"add", [], []> {
  let summary = "Elementwise sum of two tensors of one shape (residual connections, fan-in of cotangents).";
  let arguments = (ins Sluice_FloatTensor:$a, Sluice_FloatTensor:$b);
  let results = (outs Sluice_FloatTensor:$y);
  let hasVerifier = 1;
}

def Sluice_MultiplyOp : Sluice_DifferentiableOp<"multiply", [0, 1], []> {
  let summary = "Elementwise product; the second operand broadcasts like those of `map`.";
  let arguments = (ins Sluice_FloatTensor:$a, Sluice_FloatTensor:$b);
  let results = (outs Sluice_FloatTensor:$y);
  let hasVerifier = 1;
}

def Sluice_ScaleOp : Sluice_DifferentiableOp<"scale", [], []> {
  let summary = "y = factor * x.";
  let arguments = (ins Sluice_FloatTensor:$x, F64Attr:$factor);
  let results = (outs Sluice_FloatTensor:$y);
}

#endif // SLUICE_DENSE_TD
