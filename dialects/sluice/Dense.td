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

def Sluice_LayerNormOp : Sluice_ValueOp<"layer_norm", [AttrSizedOperandSegments,
    DeclareOpInterfaceMethods<Sluice_Differentiable, ["buildAdjoint"]>]> {
  let summary = "y = (x - mean(x)) / sqrt(variance(x) + epsilon) (* gain) (+ bias), over the last axis.";
  let description = [{
    The variance is the mean of the squared distances from the mean. Gain and bias are optional (OLMo has neither). The
    second result is the reciprocal standard deviation, [..., 1], which the adjoint reads.
  }];
  let arguments = (ins Sluice_FloatTensor:$x, Optional<Sluice_FloatTensor>:$gain, Optional<Sluice_FloatTensor>:$bias,
                       F64Attr:$epsilon);
  let results = (outs Sluice_FloatTensor:$y, Sluice_FloatTensor:$reciprocal);
  let assemblyFormat = "$x (`gain` $gain^)? (`bias` $bias^)? attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// x and, where there is one, the gain.
    ::llvm::ArrayRef<int64_t> adjointReadsOperands();
    ::llvm::ArrayRef<int64_t> adjointReadsResults();
  }];
}

def Sluice_PositionEmbeddingOp : Sluice_DifferentiableOp<"position_embedding", [], []> {
  let summary = "Learned positions: y[b, s, :] = x[b, s, :] + table[s, :].";
  let description = [{
    x is [batch, seq, width], the table [positions, width]. A sequence longer than the table has a count but no meaning:
    it can be counted, not run or compiled.
  }];
  let arguments = (ins Sluice_FloatTensor:$x, Sluice_FloatTensor:$table);
  let results = (outs Sluice_FloatTensor:$y);
  let hasVerifier = 1;
}

def Sluice_PositionEmbeddingGradientOp : Sluice_ValueOp<"position_embedding_gradient"> {
  let summary = "Adjoint of position_embedding: the sum of dy over the batch, zeros for positions that the sequence does not reach.";
  let arguments = (ins Sluice_FloatTensor:$dy, I64Attr:$positions);
  let results = (outs Sluice_FloatTensor:$dtable);
}

def Sluice_RopeOp : Sluice_DifferentiableOp<"rope", [], []> {
  let summary = "Rotary positions: pair i of a head turns by position * frequency(i).";
  let description = [{
    x is [batch, seq, heads * head_dim]. Of each head the elements [offset, offset + rotary_dim) turn, the others stay;
    `rotary_dim` 0 means all from `offset` on. Pair i is (i, i + rotary_dim/2), half-split, or (2i, 2i + 1) if
    `interleaved`. Its frequency is theta^(-2i/rotary_dim), or `frequencies[i]` where a table is stated (scaled rotary
    positions: the table holds the scaled values). `factor` multiplies cosine and sine. `inverse` turns back with the
    same factor, which is the adjoint.
  }];
  let arguments = (ins Sluice_FloatTensor:$x, I64Attr:$heads, F64Attr:$theta,
                       DefaultValuedAttr<BoolAttr, "false">:$inverse, DefaultValuedAttr<I64Attr, "0">:$offset,
                       DefaultValuedAttr<I64Attr, "0">:$rotary_dim, DefaultValuedAttr<BoolAttr, "false">:$interleaved,
                       DefaultValuedAttr<F64Attr, "1.0">:$factor,
                       DefaultValuedOptionalAttr<DenseF64ArrayAttr, "{}">:$frequencies);
  let results = (outs Sluice_FloatTensor:$y);
  let hasVerifier = 1;
}

def Sluice_AttentionOp : Sluice_ValueOp<"attention", [DeclareOpInterfaceMethods<Sluice_Differentiable, ["buildAdjoint"]>]> {
  let summary = "out = softmax(score(q, k)) v, head by head.";
  let description = [{
    q is [batch, seq, heads * head_dim], k is [batch, seq, kv_heads * head_dim], v is [batch, seq, kv_heads * value_dim]
    and out is [batch, seq, heads * value_dim]; query head i reads key/value head i / (heads / kv_heads). The score of
    position s with position t is, in this order: `scale` * <q[s], k[t]>; if `softcap` is not 0,
    softcap * tanh(score / softcap); if there are `slopes` (ALiBi, one a head), plus slope * (t - s).
    `causal`: position s reads positions 0..s; with a `window` W it reads s-W+1..s (0: no window). `sinks` holds one logit
    a head that joins the denominator of the softmax and has no value. The second result is the logsumexp of the scores
    and the sink, [batch, heads, seq]; the adjoint recomputes the scores from it.
  }];
  let arguments = (ins Sluice_FloatTensor:$q, Sluice_FloatTensor:$k, Sluice_FloatTensor:$v,
                       Optional<Sluice_FloatTensor>:$sinks, I64Attr:$heads, I64Attr:$kv_heads, BoolAttr:$causal,
                       F64Attr:$scale, DefaultValuedAttr<I64Attr, "0">:$window, DefaultValuedAttr<F64Attr, "0.0">:$softcap,
                       DefaultValuedOptionalAttr<DenseF64ArrayAttr, "{}">:$slopes);
  let results = (outs Sluice_FloatTensor:$out, Sluice_FloatTensor:$logsumexp);
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// q, k, v and, where there are some, the sinks.
    ::llvm::ArrayRef<int64_t> adjointReadsOperands();
    ::llvm::ArrayRef<int64_t> adjointReadsResults();
  }];
}

def Sluice_AttentionGradientOp : Sluice_ValueOp<"attention_gradient"> {
  let summary = "Adjoint of attention: dq, dk, dv and, with sinks, dsinks.";
  let arguments = (ins Sluice_FloatTensor:$q, Sluice_FloatTensor:$k, Sluice_FloatTensor:$v, Sluice_FloatTensor:$out,
                       Sluice_FloatTensor:$logsumexp, Sluice_FloatTensor:$dout, Optional<Sluice_FloatTensor>:$sinks,
                       I64Attr:$heads, I64Attr:$kv_heads, BoolAttr:$causal, F64Attr:$scale,
                       DefaultValuedAttr<I64Attr, "0">:$window, DefaultValuedAttr<F64Attr, "0.0">:$softcap,
                       DefaultValuedOptionalAttr<DenseF64ArrayAttr, "{}">:$slopes);
  let results = (outs Sluice_FloatTensor:$dq, Sluice_FloatTensor:$dk, Sluice_FloatTensor:$dv,
                      Optional<Sluice_FloatTensor>:$dsinks);
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
