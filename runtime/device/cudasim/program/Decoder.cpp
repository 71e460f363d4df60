#include "runtime/device/cudasim/program/Decoder.h"

#include "runtime/device/cudasim/program/ControlFlow.h"

#include "absl/strings/str_join.h"

namespace sluice::cudasim {

namespace {

constexpr uint32_t kMaximumRowBytes = 8 << 20;
constexpr uint32_t kMaximumOps = 4'000'000;
constexpr int kMaximumInlining = 32;
constexpr uint64_t kMaximumParameters = 32764;

uint32_t signatureBytes(char type) {
  switch (type) {
  case 'p':
    return 0;
  case 'h':
    return 2;
  case 'q':
  case 'd':
    return 8;
  default:
    return 4;
  }
}

} // namespace

std::string Kernel::place(const Op &op) const {
  if (op.sourceLine != 0)
    for (const auto &[number, path] : sourceFiles)
      if (number == op.sourceFile)
        return concat(path.substr(path.find_last_of('/') + 1), ":", op.sourceLine);
  return concat(file, ":", op.line);
}

Decoder::Decoder(const ptx::Module &module, const SymbolAddresses &symbols)
    : module(module), symbols(symbols), table(InstructionTable::get()), kernel(std::make_shared<Kernel>()) {
  kernel->file = module.file;
  for (const auto &[number, path] : module.sourceFiles)
    kernel->sourceFiles.push_back({number, path});
}

Status Decoder::error(const ptx::Instruction &instruction, std::string_view expectation) const {
  return badInputError(module.file, ":", instruction.line, ": instruction '",
                       instruction.fullName().substr(0, 100), "': expected ", expectation);
}

Status Decoder::unsupported(const ptx::Instruction &instruction) const {
  return absl::UnimplementedError(
      concat(instruction.fullName().substr(0, 100), " (line ", instruction.line, ")"));
}

Op &Decoder::emit(const ptx::Instruction &instruction, OpKind kind) {
  Op op;
  op.kind = kind;
  op.line = instruction.line;
  op.sourceFile = instruction.sourceFile;
  op.sourceLine = instruction.sourceLine;
  op.guardNegated = instruction.guardNegated;
  // The guard's row was made before the instruction was decoded, so this finds it.
  if (!instruction.guard.empty())
    op.guard = *registerRow(instruction, instruction.guard, 0);
  kernel->ops.push_back(op);
  kernel->texts.push_back(instruction.fullName());
  return kernel->ops.back();
}

Status Decoder::branch(const ptx::Instruction &instruction, std::string_view label) {
  const std::optional<uint32_t> target = frame->function->findLabel(label, instruction.scope);
  if (!target)
    return error(instruction, concat("a label, found '", std::string(label).substr(0, 60), "'"));
  emit(instruction, OpKind::Branch);
  frame->jumps.push_back({static_cast<uint32_t>(kernel->ops.size() - 1), *target});
  return absl::OkStatus();
}

Status Decoder::leave(const ptx::Instruction &instruction) {
  if (depth == 0 || instruction.opcode == "exit") {
    emit(instruction, OpKind::Exit);
    return absl::OkStatus();
  }
  emit(instruction, OpKind::Branch);
  frame->returns.push_back(static_cast<uint32_t>(kernel->ops.size() - 1));
  return absl::OkStatus();
}

Status Decoder::call(const ptx::Instruction &instruction) {
  std::vector<const ptx::Operand *> arguments, results;
  const ptx::Operand *name = nullptr;
  for (const ptx::Operand &operand : instruction.operands) {
    if (operand.kind == ptx::Operand::Kind::List)
      for (const ptx::Operand &element : operand.elements)
        (name ? arguments : results).push_back(&element);
    else if (!name)
      name = &operand;
  }
  if (!name || name->kind != ptx::Operand::Kind::Name)
    return error(instruction, "a function's name");
  const ptx::Function *callee = module.findFunction(name->name);
  if (!callee) {
    missing.push_back(concat("call of ", name->name.substr(0, 60), " (line ", instruction.line, ")"));
    return absl::OkStatus();
  }
  if (depth >= kMaximumInlining)
    return error(instruction,
                 concat("calls at most ", kMaximumInlining, " deep (recursion is not simulated)"));
  if (arguments.size() != callee->parameters.size() || results.size() != callee->results.size())
    return error(instruction, concat(callee->parameters.size(), " arguments and ", callee->results.size(),
                                     " results, found ", arguments.size(), " and ", results.size()));
  // Lanes for which the guard does not hold go around the inlined body.
  uint32_t around = kNoOp;
  if (!instruction.guard.empty()) {
    Op &skip = emit(instruction, OpKind::Branch);
    skip.guardNegated = !skip.guardNegated;
    around = static_cast<uint32_t>(kernel->ops.size() - 1);
  }
  Frame inner;
  inner.function = callee;
  inner.index = ++frames;
  const auto bind = [&](const std::vector<const ptx::Operand *> &given,
                        const std::vector<ptx::Variable> &formal) -> Status {
    for (size_t i = 0; i < given.size(); ++i) {
      SLUICE_ASSIGN_OR_RETURN(const Place place, placeOf(instruction, given[i]->name));
      inner.places[placeKey(formal[i])] = place;
    }
    return absl::OkStatus();
  };
  SLUICE_RETURN_IF_ERROR(bind(arguments, callee->parameters));
  SLUICE_RETURN_IF_ERROR(bind(results, callee->results));
  Frame *outer = frame;
  frame = &inner;
  ++depth;
  const Status status = decodeFrame(inner);
  --depth;
  frame = outer;
  SLUICE_RETURN_IF_ERROR(status);
  const uint32_t after = static_cast<uint32_t>(kernel->ops.size());
  for (uint32_t op : inner.returns)
    kernel->ops[op].target = after;
  if (around != kNoOp)
    kernel->ops[around].target = after;
  return absl::OkStatus();
}

Status Decoder::decodePlain(const ptx::Instruction &instruction, const PlainRow &row) {
  SLUICE_RETURN_IF_ERROR(expectOperands(instruction, row.signature.size()));
  std::array<uint32_t, 14> rows;
  rows.fill(kNoRow);
  for (size_t i = 0; i < row.signature.size(); ++i) {
    const char type = row.signature[i];
    auto operand = i == 0 ? destination(instruction, instruction.operands[0], signatureBytes(type))
                          : source(instruction, instruction.operands[i], signatureBytes(type), type);
    SLUICE_RETURN_IF_ERROR(operand.status());
    rows[i] = *operand;
  }
  Op &op = emit(instruction);
  op.handler = row.handler;
  op.rows = rows;
  op.rounding = row.rounding;
  op.flushDenormals = row.flushDenormals;
  op.saturate = row.saturate;
  return absl::OkStatus();
}

Status Decoder::decodeInstruction(const ptx::Instruction &instruction) {
  if (!instruction.guard.empty())
    SLUICE_RETURN_IF_ERROR(registerRow(instruction, instruction.guard, 0).status());
  if (const PlainRow *row = table.findPlain(instruction.fullName())) {
    // Pairs and vectors (mov.b32 %r, {%rs1, %rs2}) share their names with the plain forms.
    bool scalar = true;
    for (const ptx::Operand &operand : instruction.operands)
      scalar &= operand.kind != ptx::Operand::Kind::Vector && operand.second.empty();
    if (scalar)
      return decodePlain(instruction, *row);
  }
  if (DecodeFunction decode = table.findDecoded(instruction.opcode))
    return decode(*this, instruction);
  return unsupported(instruction);
}

Status Decoder::decodeFrame(Frame &current) {
  const ptx::Function &function = *current.function;
  for (const ptx::Instruction &instruction : function.instructions) {
    current.pcs.push_back(static_cast<uint32_t>(kernel->ops.size()));
    const size_t opsBefore = kernel->ops.size();
    const Status status = decodeInstruction(instruction);
    if (absl::IsUnimplemented(status))
      missing.emplace_back(std::string(status.message()));
    else
      SLUICE_RETURN_IF_ERROR(status);
    if (kernel->ops.size() > kMaximumOps || kernel->rowBytes > kMaximumRowBytes || opsBefore > kMaximumOps)
      return error(instruction,
                   "a function that stays within the simulator's limits once its calls are inlined");
  }
  current.pcs.push_back(static_cast<uint32_t>(kernel->ops.size()));
  for (const auto &[op, instruction] : current.jumps)
    kernel->ops[op].target = current.pcs[instruction];
  return absl::OkStatus();
}

Status Decoder::decode(const ptx::Function &entry) {
  kernel->name = entry.name;
  std::copy(entry.maxThreads, entry.maxThreads + 3, kernel->maxThreads);
  std::copy(entry.requiredThreads, entry.requiredThreads + 3, kernel->requiredThreads);
  Frame root;
  root.function = &entry;
  root.index = frames;
  frame = &root;
  uint64_t offset = 0;
  for (const ptx::Variable &parameter : entry.parameters) {
    offset = alignUp(offset, parameter.alignment);
    root.places[placeKey(parameter)] = {AddressSpace::Param, offset};
    kernel->parameters.push_back({static_cast<uint32_t>(offset), static_cast<uint32_t>(parameter.bytes)});
    offset += parameter.bytes;
    if (offset > kMaximumParameters)
      return badInputError(module.file, ":", entry.line, ": expected at most ", kMaximumParameters,
                           " bytes of parameters");
  }
  kernel->parameterBytes = static_cast<uint32_t>(offset);
  SLUICE_RETURN_IF_ERROR(decodeFrame(root));
  frame = nullptr;
  if (missing.empty())
    return absl::OkStatus();
  constexpr size_t kListed = 20;
  const size_t more = missing.size() > kListed ? missing.size() - kListed : 0;
  missing.resize(std::min(missing.size(), kListed));
  return badInputError(module.file, ": kernel '", entry.name.substr(0, 100),
                       "': expected instructions that are simulated, found ", absl::StrJoin(missing, ", "),
                       more != 0 ? concat(" and ", more, " more") : std::string(),
                       "; docs/cuda-simulator.md says how to add one");
}

void Decoder::markOrderedAtomics() {
  // NVRTC writes "atom" even where nothing reads its result; such atomics commute unless they add floats.
  absl::flat_hash_map<uint32_t, uint32_t> uses;
  for (const Op &op : kernel->ops)
    for (uint32_t row : op.rows)
      ++uses[row];
  for (const Op &op : kernel->ops) {
    const bool isRead = op.rows[0] != kNoRow && uses[op.rows[0]] > 1;
    if (op.isAtomic && op.space != AddressSpace::Shared && (isRead || !op.commutes))
      kernel->ordered = true;
  }
}

std::shared_ptr<Kernel> Decoder::finish() {
  ptx::Instruction end;
  end.opcode = "ret";
  end.line = kernel->ops.empty() ? 0 : kernel->ops.back().line;
  Op exit;
  exit.kind = OpKind::Exit;
  exit.line = end.line;
  kernel->ops.push_back(exit);
  kernel->texts.push_back("ret");
  // The dynamic part of shared memory begins after the static one.
  if (!dynamicUses.empty() || dynamicAlignment > 1) {
    kernel->sharedBytes = static_cast<uint32_t>(alignUp(kernel->sharedBytes, dynamicAlignment));
    for (uint32_t use : dynamicUses)
      kernel->constants[use].value += kernel->sharedBytes;
  }
  kernel->rowBytes = static_cast<uint32_t>(alignUp(kernel->rowBytes, 64));
  markOrderedAtomics();
  findJoins(kernel->ops);
  return kernel;
}

StatusOr<std::shared_ptr<const Kernel>> decodeKernel(const ptx::Module &module, const ptx::Function &function,
                                                     const SymbolAddresses &symbols) {
  Decoder decoder(module, symbols);
  SLUICE_RETURN_IF_ERROR(decoder.decode(function));
  return std::shared_ptr<const Kernel>(decoder.finish());
}

} // namespace sluice::cudasim
