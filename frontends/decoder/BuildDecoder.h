// From a decoder's configuration to a readable graph of the model dialect.
#pragma once

#include "frontends/decoder/DecoderConfig.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/Support/JSON.h"

namespace sluice {

/// Builds a module with one graph `@model(tokens, targets) -> logits, loss_sum`, with dimensions `batch` and
/// `seq`. Parameters carry Hugging Face names (`config.names`). `training` becomes the module attribute
/// `sluice.training`; the configuration becomes `sluice.model_config` as a Hugging Face config. The context
/// must have the dialect loaded.
StatusOr<mlir::OwningOpRef<mlir::ModuleOp>>
buildDecoder(mlir::MLIRContext &context, const DecoderConfig &config, const llvm::json::Object &training);

/// The config.json that the configuration came from; for a spec, that of the family it belongs to (llama or
/// mixtral), every field written out.
llvm::json::Object huggingFaceConfig(const DecoderConfig &config);

} // namespace sluice
