// What all parts of a decoder are built with: parameters, products, norms, scopes, small maps.
#pragma once

#include "dialects/sluice/Build.h"
#include "dialects/sluice/Sluice.h"
#include "frontends/decoder/DecoderConfig.h"

#include <string>

namespace sluice {

/// A builder with the decoder's configuration. Every value gets a name location, so that printed graphs read
/// like the model. `checkpoint` is a tensor's name in checkpoints without ".weight" and ".bias".
class GraphParts {
public:
  GraphParts(mlir::OpBuilder &builder, const DecoderConfig &config)
      : builder(builder), config(config), f32(builder.getF32Type()) {}

  mlir::Location at(llvm::StringRef name) { return mlir::NameLoc::get(builder.getStringAttr(name)); }
  mlir::IntegerAttr integer(int64_t value) { return builder.getI64IntegerAttr(value); }
  mlir::FloatAttr number(double value) { return builder.getF64FloatAttr(value); }
  mlir::Attribute normal();
  mlir::Attribute fill(double value);

  mlir::Value param(llvm::StringRef name, llvm::StringRef role, llvm::ArrayRef<int64_t> shape,
                    mlir::Attribute init, const std::string &checkpoint);
  /// A linear layer with its own weight (`weight` is its name), and bias if `biased`.
  mlir::Value linear(llvm::StringRef name, llvm::StringRef weight, llvm::StringRef role, mlir::Value x,
                     int64_t in, int64_t out, const std::string &checkpoint, bool biased);
  /// The decoder's norm over the last axis, or over `width` elements of it at a time.
  mlir::Value norm(llvm::StringRef name, mlir::Value x, llvm::StringRef weight, int64_t width,
                   const std::string &checkpoint);
  /// RMSNorm over the last axis, whatever the decoder's norm is.
  mlir::Value rmsNorm(llvm::StringRef name, mlir::Value x, llvm::StringRef weight, int64_t width,
                      double epsilon, const std::string &checkpoint);
  /// [batch, seq, heads * dim] as [batch, seq, heads, dim].
  mlir::Value splitHeads(llvm::StringRef name, mlir::Value x, int64_t heads, int64_t dim);
  /// And back.
  mlir::Value joinHeads(llvm::StringRef name, mlir::Value x, int64_t heads, int64_t dim);
  /// `size` elements of the last axis from `offset`.
  mlir::Value slice(llvm::StringRef name, mlir::Value x, int64_t offset, int64_t size);
  /// cap * tanh(x / cap).
  mlir::Value softcap(llvm::StringRef name, mlir::Value x, double cap);
  /// A named scope around what `body` builds; the returned values leave it.
  llvm::SmallVector<mlir::Value> scope(llvm::StringRef name, llvm::StringRef role,
                                       llvm::function_ref<llvm::SmallVector<mlir::Value>()> body);

  mlir::OpBuilder &builder;
  const DecoderConfig &config;
  mlir::Type f32;
};

/// The parts of a layer, each with its norms; x is [batch, seq, width]. `targets` tells the auxiliary losses
/// which tokens count.
mlir::Value buildAttention(GraphParts &parts, mlir::Value x, const LayerConfig &layer);
mlir::Value buildMlp(GraphParts &parts, mlir::Value x);
mlir::Value buildMoe(GraphParts &parts, mlir::Value x, mlir::Value targets);

/// Names in checkpoints of the three products of an MLP.
struct MlpNames {
  std::string gate, up, down;
};
/// Up (and gate), activation, down: the same for a dense MLP and for one expert.
mlir::Value buildFeedForward(GraphParts &parts, mlir::Value x, llvm::StringRef role, int64_t ffn,
                             const MlpNames &names);

} // namespace sluice
