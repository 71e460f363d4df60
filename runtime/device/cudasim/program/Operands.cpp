#include "runtime/device/cudasim/program/Decoder.h"
#include "runtime/device/cudasim/program/SpecialRegisters.h"

#include <bit>

// Operands of instructions become rows of the kernel's registers: registers, numbers, special registers,
// places of variables.
namespace sluice::cudasim {

namespace {

/// Bytes that a block may have of shared memory, and a thread of local memory.
constexpr uint64_t kMaximumShared = 1 << 20, kMaximumLocal = 1 << 19;

} // namespace

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

} // namespace sluice::cudasim
