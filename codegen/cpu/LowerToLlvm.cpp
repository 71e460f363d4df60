#include "codegen/cpu/LowerToLlvm.h"

#include "codegen/cpu/Loops.h"

#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/LLVMCommon/ConversionTarget.h"
#include "mlir/Conversion/LLVMCommon/TypeConverter.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVM.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Math/Transforms/Passes.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

using namespace mlir;

namespace sluice::cpu {
namespace {

void loadDialects(MLIRContext *context) {
  DialectRegistry registry;
  registry.insert<LLVM::LLVMDialect, scf::SCFDialect, cf::ControlFlowDialect, arith::ArithDialect,
                  math::MathDialect, vector::VectorDialect>();
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
  context->appendDialectRegistry(registry);
  context->loadDialect<LLVM::LLVMDialect, scf::SCFDialect, cf::ControlFlowDialect, arith::ArithDialect,
                       math::MathDialect, vector::VectorDialect>();
}

LogicalResult emitKernel(OpBuilder &builder, const NamedKernel &named, CpuLevel level) {
  FailureOr<KernelProgram> program = readKernelProgram(named.kernel);
  if (failed(program))
    return mlir::failure();
  Location loc = builder.getUnknownLoc();
  CodeBuilder code(builder, loc, level.vectorWidth());
  auto type = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(builder.getContext()),
                                          {code.pointer, code.pointer, code.i64});
  OpBuilder::InsertionGuard guard(builder);
  auto function = LLVM::LLVMFuncOp::create(builder, loc, named.name, type);
  Block *entry = function.addEntryBlock(builder);
  builder.setInsertionPointToStart(entry);
  llvm::SmallVector<Value> buffers;
  int64_t count = program->inputs + static_cast<int64_t>(program->outputs.size());
  for (int64_t index = 0; index < count; ++index) {
    Value place = LLVM::GEPOp::create(builder, loc, code.pointer, code.pointer, entry->getArgument(0),
                                      llvm::ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(index)});
    buffers.push_back(LLVM::LoadOp::create(builder, loc, code.pointer, place));
  }
  (program->byColumns ? emitColumnsKernel : emitRowsKernel)(code, *program, tilingOf(*program), buffers,
                                                            entry->getArgument(2));
  builder.setInsertionPointToEnd(&function.getBody().back());
  LLVM::ReturnOp::create(builder, loc, ValueRange());
  return mlir::success();
}

/// Mathematical functions as polynomials on vectors: a library call would be made lane by lane.
LogicalResult approximateMath(ModuleOp module) {
  RewritePatternSet patterns(module.getContext());
  populateMathPolynomialApproximationPatterns(patterns);
  populatePolynomialApproximateErfPattern(patterns);
  math::populateExpansionPatterns(patterns,
                                  {"powf", "fpowi", "sinh", "cosh", "asinh", "acosh", "atanh", "roundeven"});
  GreedyRewriteConfig config;
  config.setRegionSimplificationLevel(GreedySimplifyRegionLevel::Disabled);
  return applyPatternsGreedily(module, std::move(patterns), config);
}

LogicalResult convertToLlvm(ModuleOp module) {
  MLIRContext *context = module.getContext();
  LLVMTypeConverter converter(context);
  RewritePatternSet patterns(context);
  populateSCFToControlFlowConversionPatterns(patterns);
  cf::populateControlFlowToLLVMConversionPatterns(converter, patterns);
  arith::populateArithToLLVMConversionPatterns(converter, patterns);
  populateMathToLLVMConversionPatterns(converter, patterns);
  populateVectorToLLVMConversionPatterns(converter, patterns);
  LLVMConversionTarget target(*context);
  target.addLegalOp<ModuleOp>();
  return applyFullConversion(module, target, std::move(patterns));
}

} // namespace

FailureOr<std::unique_ptr<llvm::Module>> lowerKernels(llvm::ArrayRef<NamedKernel> kernels, CpuLevel level,
                                                      llvm::LLVMContext &context) {
  if (kernels.empty())
    return std::make_unique<llvm::Module>("kernels", context);
  MLIRContext *mlirContext = kernels.front().kernel->getContext();
  loadDialects(mlirContext);
  OpBuilder builder(mlirContext);
  OwningOpRef<ModuleOp> module = ModuleOp::create(builder.getUnknownLoc());
  for (const NamedKernel &kernel : kernels) {
    builder.setInsertionPointToEnd(module->getBody());
    if (failed(emitKernel(builder, kernel, level)))
      return mlir::failure();
  }
  if (failed(approximateMath(*module)) || failed(convertToLlvm(*module)))
    return mlir::failure();
  std::unique_ptr<llvm::Module> result = translateModuleToLLVMIR(*module, context, "kernels");
  if (!result)
    return mlir::failure();
  return std::move(result);
}

} // namespace sluice::cpu
