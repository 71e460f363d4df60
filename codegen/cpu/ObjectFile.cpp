#include "codegen/cpu/ObjectFile.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/Analysis/CGSCCPassManager.h"
#include "llvm/Analysis/LoopAnalysisManager.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Triple.h"
#include "llvm/Transforms/InstCombine/InstCombine.h"
#include "llvm/Transforms/Scalar/EarlyCSE.h"
#include "llvm/Transforms/Scalar/LICM.h"
#include "llvm/Transforms/Scalar/LoopPassManager.h"
#include "llvm/Transforms/Scalar/SimplifyCFG.h"

#include <mutex>

namespace sluice::cpu {
namespace {

void initializeTarget() {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
  });
}

StatusOr<std::unique_ptr<llvm::TargetMachine>> makeTargetMachine(CpuLevel level) {
  initializeTarget();
  llvm::Triple triple("x86_64-unknown-linux-gnu");
  std::string problem;
  const llvm::Target *target = llvm::TargetRegistry::lookupTarget(triple, problem);
  if (!target)
    return failure("LLVM cannot generate x86-64 code: ", problem, "; install LLVM 22 with the X86 target");
  return std::unique_ptr<llvm::TargetMachine>(
      target->createTargetMachine(triple, level.processor(), "", llvm::TargetOptions(), llvm::Reloc::PIC_,
                                  std::nullopt, llvm::CodeGenOptLevel::Default));
}

/// The kernels are vectorised already: what remains is to merge equal address arithmetic and to hoist it.
void optimise(llvm::Module &module, llvm::TargetMachine &machine) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager sccs;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(&machine);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(sccs);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, sccs, modules);
  llvm::FunctionPassManager passes;
  passes.addPass(llvm::EarlyCSEPass());
  passes.addPass(llvm::InstCombinePass());
  passes.addPass(llvm::SimplifyCFGPass());
  passes.addPass(
      llvm::createFunctionToLoopPassAdaptor(llvm::LICMPass(llvm::LICMOptions()), /*UseMemorySSA=*/true));
  for (llvm::Function &function : module)
    if (!function.isDeclaration())
      passes.run(function, functions);
}

} // namespace

void addKernelTable(llvm::Module &module, const std::vector<std::string> &names, CpuLevel level) {
  llvm::LLVMContext &context = module.getContext();
  llvm::IRBuilder<> builder(context);
  auto *pointer = llvm::PointerType::get(context, 0);
  auto *i64 = builder.getInt64Ty();
  auto *entryType = llvm::StructType::get(context, {pointer, pointer, i64});
  std::vector<llvm::Constant *> entries;
  for (const std::string &name : names) {
    llvm::Function *function = module.getFunction(name);
    function->setLinkage(llvm::GlobalValue::InternalLinkage);
    if (level.number >= SLUICE_CPU_X86_64_V4)
      function->addFnAttr("prefer-vector-width", "512");
    llvm::Constant *text = llvm::ConstantDataArray::getString(context, name);
    auto *global =
        new llvm::GlobalVariable(module, text->getType(), true, llvm::GlobalValue::PrivateLinkage, text);
    entries.push_back(llvm::ConstantStruct::get(entryType, {global, function, builder.getInt64(0)}));
  }
  auto *arrayType = llvm::ArrayType::get(entryType, entries.size());
  auto *table = new llvm::GlobalVariable(module, arrayType, true, llvm::GlobalValue::PrivateLinkage,
                                         llvm::ConstantArray::get(arrayType, entries));
  auto *libraryType =
      llvm::StructType::get(context, {builder.getInt32Ty(), builder.getInt32Ty(), i64, pointer});
  llvm::Constant *library = llvm::ConstantStruct::get(
      libraryType, {builder.getInt32(SLUICE_KERNEL_ABI_VERSION), builder.getInt32(level.number),
                    builder.getInt64(entries.size()), table});
  auto *global =
      new llvm::GlobalVariable(module, libraryType, true, llvm::GlobalValue::PrivateLinkage, library);
  auto *query =
      llvm::Function::Create(llvm::FunctionType::get(pointer, false), llvm::GlobalValue::ExternalLinkage,
                             SLUICE_KERNEL_LIBRARY_QUERY, module);
  builder.SetInsertPoint(llvm::BasicBlock::Create(context, "entry", query));
  builder.CreateRet(global);
}

StatusOr<std::string> compileObject(llvm::Module &module, CpuLevel level) {
  SLUICE_ASSIGN_OR_RETURN(std::unique_ptr<llvm::TargetMachine> machine, makeTargetMachine(level));
  module.setTargetTriple(machine->getTargetTriple());
  module.setDataLayout(machine->createDataLayout());
  for (llvm::Function &function : module)
    function.addFnAttr("target-cpu", level.processor());
  optimise(module, *machine);
  llvm::SmallString<0> object;
  llvm::raw_svector_ostream stream(object);
  llvm::legacy::PassManager passes;
  if (machine->addPassesToEmitFile(passes, stream, nullptr, llvm::CodeGenFileType::ObjectFile))
    return failure("LLVM cannot write object files for ", level.processor());
  passes.run(module);
  return object.str().str();
}

} // namespace sluice::cpu
