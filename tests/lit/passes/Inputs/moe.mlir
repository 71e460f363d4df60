// A decoder of two MoE layers, the smallest with all parts: tied table, norms, router, experts, losses, observations.
!routing = !sluice.routing<experts = 3, top_k = 2, tokens = "batch*seq">
!ids = tensor<?x?xi32, #sluice.dims<batch, seq>>
!x = tensor<?x?x4xf32, #sluice.dims<batch, seq, _>>
!x1 = tensor<?x?x1xf32, #sluice.dims<batch, seq, _>>
!gates = tensor<?x?x2xf32, #sluice.dims<batch, seq, _>>
!scores = tensor<?x?x3xf32, #sluice.dims<batch, seq, _>>
!logits = tensor<?x?x11xf32, #sluice.dims<batch, seq, _>>
!rows = tensor<?x4xf32, #sluice.dims<"2*batch*seq", _>>
!inner = tensor<?x5xf32, #sluice.dims<"2*batch*seq", _>>

module @tiny attributes {sluice.training = {optimizer = {weight_decay = 0.2 : f64}}} {
  sluice.graph @any(%tokens: !ids, %targets: !ids) {
    %table = sluice.param "embed" init #sluice.normal<0.02 : f64> role "embedding" checkpoint "model.embed_tokens.weight" : tensor<11x4xf32>
    %h0 = sluice.embedding %tokens, %table : (!ids, tensor<11x4xf32>) -> !x
    %h = sluice.repeat "layers" times 2 (%x = %h0) : (!x) -> !x {
      %m = sluice.scope "moe" role "expert" -> !x {
        %g = sluice.param "norm" init #sluice.fill<1.0 : f64> role "norm" : tensor<4xf32>
        %n:2 = sluice.rms_norm %x, %g {epsilon = 1.0e-5 : f64} : (!x, tensor<4xf32>) -> (!x, !x1)
        %r:2 = sluice.scope "router" role "router" -> !routing, !gates {
          %wr = sluice.param "weight" init #sluice.normal<0.02 : f64> role "router" : tensor<3x4xf32>
          %l = sluice.linear %n#0, %wr : (!x, tensor<3x4xf32>) -> !scores
          %routing, %gates, %probs = sluice.route %l {top_k = 2 : i64, score = "softmax", renormalize = true} : (!scores) -> (!routing, !gates, !scores)
          %b = sluice.switch_balance %probs, %routing, %targets : (!scores, !routing, !ids) -> tensor<f32>
          sluice.auxiliary_loss "balance" %b weight 0.01 : tensor<f32>
          %s = sluice.routing_statistics %l, %probs, %routing, %targets : (!scores, !scores, !routing, !ids) -> tensor<7xf32>
          sluice.observe "routing" %s : tensor<7xf32>
          sluice.yield %routing, %gates : !routing, !gates
        }
        %o = sluice.scope "experts" role "expert" -> !x {
          %rows = sluice.dispatch %n#0 by %r#0 : (!x, !routing) -> !rows
          %ye = sluice.experts by %r#0 : !routing (%row = %rows) : (!rows) -> !rows {
            %w1 = sluice.param "w_gate" init #sluice.normal<0.02 : f64> role "expert" checkpoint "model.layers.{layer}.moe.experts.{expert}.w1.weight" : tensor<5x4xf32>
            %w3 = sluice.param "w_up" init #sluice.normal<0.02 : f64> role "expert" : tensor<5x4xf32>
            %w2 = sluice.param "w_down" init #sluice.normal<0.02 : f64> role "expert" : tensor<4x5xf32>
            %gate = sluice.linear %row, %w1 : (!rows, tensor<5x4xf32>) -> !inner
            %up = sluice.linear %row, %w3 : (!rows, tensor<5x4xf32>) -> !inner
            %act = sluice.swiglu %gate, %up : (!inner, !inner) -> !inner
            %out = sluice.linear %act, %w2 : (!inner, tensor<4x5xf32>) -> !rows
            sluice.yield %out : !rows
          }
          %c = sluice.combine %ye by %r#0 gates %r#1 : (!rows, !routing, !gates) -> !x
          sluice.yield %c : !x
        }
        sluice.yield %o : !x
      }
      %y = sluice.add %x, %m : (!x, !x) -> !x
      sluice.yield %y : !x
    }
    %logits, %loss = sluice.scope "head" role "head" -> !logits, tensor<f32> {
      %z = sluice.linear %h, %table : (!x, tensor<11x4xf32>) -> !logits
      %ls = sluice.cross_entropy %z, %targets : (!logits, !ids) -> tensor<f32>
      sluice.yield %z, %ls : !logits, tensor<f32>
    }
    sluice.return %logits, %loss ["logits", "loss_sum"] : !logits, tensor<f32>
  }
}
