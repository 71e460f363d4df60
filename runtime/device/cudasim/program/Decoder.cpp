#include "runtime/device/cudasim/program/Decoder.h"

#include "runtime/device/cudasim/program/ControlFlow.h"
#include "runtime/device/cudasim/program/SpecialRegisters.h"

#include "absl/strings/str_join.h"

#include <bit>

namespace sluice::cudasim {

namespace {

constexpr uint32_t kMaximumRowBytes = 8 << 20;
constexpr uint32_t kMaximumOps = 4'000'000;
constexpr int kMaximumInlining = 32;
constexpr uint64_t kMaximumShared = 1 << 20, kMaximumLocal = 1 << 19, kMaximumParameters = 32764;

uint64_t alignUp(uint64_t value, uint64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

/// Scopes may use a name anew (param0 of each call), so the declaration's line belongs to the key.
std::string placeKey(const ptx::Variable &variable) {
  return concat(variable.name, "@", variable.line);
}

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

uint32_t Decoder::newRow(uint32_t bytes) {
  const uint32_t size = bytes == 0 ? 4 : bytes * kLanes;
  const uint32_t row = static_cast<uint32_t>(alignUp(kernel->rowBytes, bytes == 0 ? 4 : 64));
  kernel->rowBytes = row + size;
  return row;
}

uint32_t Decoder::constant(uint32_t bytes, uint64_t value) {
  if (bytes == 0)
    value = value != 0 ? kAllLanes : 0;
  else if (bytes < 8)
    value &= (uint64_t(1) << (8 * bytes)) - 1;
  auto [found, added] = constantRows.try_emplace({bytes, value}, 0);
  if (added) {
    found->second = newRow(bytes);
    kernel->constants.push_back({found->second, static_cast<uint8_t>(bytes), value});
  }
  return found->second;
}

StatusOr<uint32_t> Decoder::registerRow(const ptx::Instruction &instruction, std::string_view name,
                                        uint32_t bytes) {
  // The scope that declares the name is part of the key: inner scopes may declare it anew.
  int scope = instruction.scope;
  std::optional<ptx::Variable> variable = frame->function->find(name, scope);
  if (!variable || variable->space != ptx::Space::Register)
    return error(instruction,
                 concat("a register that is declared, found '", std::string(name).substr(0, 60), "'"));
  while (scope > 0) {
    std::optional<ptx::Variable> outer = frame->function->find(name, frame->function->scopes[scope].parent);
    if (!outer || outer->line != variable->line || outer->type != variable->type)
      break;
    scope = frame->function->scopes[scope].parent;
  }
  const bool isPredicate = variable->type == "pred";
  if (isPredicate != (bytes == 0))
    return error(instruction, concat(bytes == 0 ? "a predicate, found '" : "a value, found predicate '",
                                     std::string(name).substr(0, 60), "'"));
  const uint32_t width = isPredicate ? 0 : std::max<uint32_t>(2, static_cast<uint32_t>(variable->bytes));
  if (width != bytes)
    return error(instruction, concat("a register of ", bytes, " bytes, found '",
                                     std::string(name).substr(0, 60), "' of ", width));
  auto [found, added] = frame->rows.try_emplace(concat(scope, name), 0);
  if (added) {
    found->second = newRow(bytes);
    kernel->registers += width == 8 ? 2 : width == 0 ? 0 : 1;
  }
  return found->second;
}

uint32_t Decoder::registerBytes(const ptx::Instruction &instruction, const ptx::Operand &operand) const {
  if (operand.kind != ptx::Operand::Kind::Name)
    return 0;
  std::optional<ptx::Variable> variable = frame->function->find(operand.name, instruction.scope);
  if (!variable || variable->space != ptx::Space::Register)
    return 0;
  return std::max<uint32_t>(2, static_cast<uint32_t>(variable->bytes));
}

StatusOr<Decoder::Place> Decoder::placeOf(const ptx::Instruction &instruction, std::string_view name) {
  const std::string key(name);
  std::optional<ptx::Variable> local = frame->function->find(name, instruction.scope);
  if (!local)
    for (const auto *list : {&frame->function->parameters, &frame->function->results})
      for (const ptx::Variable &parameter : *list)
        if (parameter.name == name)
          local = parameter;
  if (local && local->space == ptx::Space::Register)
    return error(instruction, concat("a variable, found register '", key.substr(0, 60), "'"));
  if (local && local->space != ptx::Space::Shared) {
    // Parameters of the entry were placed at the start; those of calls and local variables lie in the
    // thread's own memory.
    auto [found, added] = frame->places.try_emplace(placeKey(*local), Place{AddressSpace::Local, 0});
    if (added) {
      found->second.offset = alignUp(kernel->localBytes, local->alignment);
      if (found->second.offset + local->bytes > kMaximumLocal)
        return error(instruction, concat("at most ", kMaximumLocal, " bytes of local memory a thread"));
      kernel->localBytes = static_cast<uint32_t>(found->second.offset + local->bytes);
    }
    return found->second;
  }
  const ptx::Variable *global = module.findVariable(name);
  const ptx::Variable *variable = local ? &*local : global;
  if (variable && variable->space == ptx::Space::Shared) {
    const std::string sharedKey = local ? concat(frame->function->name, ":", placeKey(*local)) : key;
    auto [found, added] = sharedPlaces.try_emplace(sharedKey, Place{AddressSpace::Shared, 0});
    if (added && variable->bytes == 0) {
      dynamicAlignment = std::max(dynamicAlignment, variable->alignment);
      found->second.offset = kMaximumShared; // stands for "after the static part" until the end
    } else if (added) {
      found->second.offset = alignUp(kernel->sharedBytes, variable->alignment);
      if (found->second.offset + variable->bytes > kMaximumShared)
        return error(instruction, concat("at most ", kMaximumShared, " bytes of shared memory"));
      kernel->sharedBytes = static_cast<uint32_t>(found->second.offset + variable->bytes);
    }
    return found->second;
  }
  if (auto found = symbols.find(key); found != symbols.end())
    return Place{AddressSpace::Global, found->second};
  return error(instruction, concat("a name that is declared, found '", key.substr(0, 100), "'"));
}

StatusOr<uint32_t> Decoder::source(const ptx::Instruction &instruction, const ptx::Operand &operand,
                                   uint32_t bytes, char type) {
  using Kind = ptx::Operand::Kind;
  switch (operand.kind) {
  case Kind::Integer:
    if (type == 'f')
      return constant(4, std::bit_cast<uint32_t>(static_cast<float>(static_cast<int64_t>(operand.bits))));
    if (type == 'd')
      return constant(8, std::bit_cast<uint64_t>(static_cast<double>(static_cast<int64_t>(operand.bits))));
    return constant(bytes, operand.bits);
  case Kind::Float32:
    if (bytes == 8)
      return constant(8, std::bit_cast<uint64_t>(
                             static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(operand.bits)))));
    return constant(bytes, operand.bits);
  case Kind::Float64:
    if (bytes == 4)
      return constant(4, std::bit_cast<uint32_t>(static_cast<float>(std::bit_cast<double>(operand.bits))));
    return constant(bytes, operand.bits);
  case Kind::Name: {
    if (!operand.second.empty())
      return error(instruction, "one register, found a pair");
    if (registerBytes(instruction, operand) != 0) {
      SLUICE_ASSIGN_OR_RETURN(const uint32_t row, registerRow(instruction, operand.name, bytes));
      if (!operand.negated)
        return row;
      if (bytes != 0)
        return error(instruction, "'!' before a predicate only");
      const uint32_t negated = newRow(0);
      Op &op = emit(instruction);
      op.guard = kNoRow;
      op.handler = table.findPlain("not.pred")->handler;
      op.rows[0] = negated;
      op.rows[1] = row;
      return negated;
    }
    if (const std::optional<SpecialRegister> special = findSpecialRegister(operand.name)) {
      if (bytes != special->bytes && !(bytes == 2 && special->bytes == 4))
        return error(instruction,
                     concat("a special register of ", bytes, " bytes, found '", operand.name, "'"));
      auto [found, added] = specialRows.try_emplace(concat(operand.name, bytes), 0);
      if (added) {
        found->second = newRow(bytes);
        kernel->specials.push_back({special->special, found->second, static_cast<uint8_t>(bytes)});
      }
      return found->second;
    }
    if (bytes != 4 && bytes != 8)
      return error(instruction, concat("a register, found '", operand.name.substr(0, 60), "'"));
    SLUICE_ASSIGN_OR_RETURN(const Place place, placeOf(instruction, operand.name));
    if (place.space == AddressSpace::Shared && place.offset == kMaximumShared) {
      const uint32_t row = newRow(bytes);
      dynamicUses.push_back(static_cast<uint32_t>(kernel->constants.size()));
      kernel->constants.push_back({row, static_cast<uint8_t>(bytes), operand.bits});
      return row;
    }
    return constant(bytes, place.offset + operand.bits);
  }
  default:
    return error(instruction, "a register or a number");
  }
}

StatusOr<uint32_t> Decoder::destination(const ptx::Instruction &instruction, const ptx::Operand &operand,
                                        uint32_t bytes) {
  if (operand.kind == ptx::Operand::Kind::Sink)
    return newRow(bytes);
  if (operand.kind != ptx::Operand::Kind::Name || operand.negated)
    return error(instruction, "a register to write");
  return registerRow(instruction, operand.name, bytes);
}

StatusOr<uint32_t> Decoder::anyRegister(const ptx::Instruction &instruction, const ptx::Operand &operand,
                                        uint8_t &bytes) {
  if (operand.kind == ptx::Operand::Kind::Sink) {
    bytes = std::max<uint8_t>(bytes, 2);
    return newRow(bytes);
  }
  if (const uint32_t width = registerBytes(instruction, operand))
    bytes = static_cast<uint8_t>(width);
  else
    bytes = std::max<uint8_t>(bytes, 2);
  return source(instruction, operand, bytes);
}

Status Decoder::address(const ptx::Instruction &instruction, const ptx::Operand &operand, Op &op,
                        uint32_t row) {
  if (operand.kind != ptx::Operand::Kind::Address)
    return error(instruction, "an address in brackets");
  op.offset = static_cast<int64_t>(operand.bits);
  op.addressBytes = 0;
  if (operand.name.empty())
    return absl::OkStatus();
  ptx::Operand base;
  base.kind = ptx::Operand::Kind::Name;
  base.name = operand.name;
  if (const uint32_t bytes = registerBytes(instruction, base)) {
    if (bytes < 4)
      return error(instruction, "an address of 32 or 64 bits");
    op.addressBytes = static_cast<uint8_t>(bytes);
    SLUICE_ASSIGN_OR_RETURN(op.rows[row], registerRow(instruction, operand.name, bytes));
    // The parameters of an inlined function lie in local memory.
    if (op.space == AddressSpace::Param && depth > 0)
      op.space = AddressSpace::Local;
    return absl::OkStatus();
  }
  SLUICE_ASSIGN_OR_RETURN(const Place place, placeOf(instruction, operand.name));
  if (place.space == AddressSpace::Shared && place.offset == kMaximumShared) {
    op.addressBytes = 4;
    SLUICE_ASSIGN_OR_RETURN(op.rows[row], source(instruction, base, 4));
    return absl::OkStatus();
  }
  op.offset += static_cast<int64_t>(place.offset);
  // A parameter of an inlined function lives in local memory, whatever the instruction says.
  if (op.space == AddressSpace::Param || op.space == AddressSpace::Generic)
    op.space = place.space;
  return absl::OkStatus();
}

Status Decoder::expectOperands(const ptx::Instruction &instruction, size_t count) const {
  if (instruction.operands.size() == count)
    return absl::OkStatus();
  return error(instruction, concat(count, " operands, found ", instruction.operands.size()));
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
