// ld, st and fences.
#include "runtime/device/cudasim/execute/Access.h"
#include "runtime/device/cudasim/instructions/MemoryModifiers.h"

#include <cstring>

namespace sluice::cudasim {

namespace {

/// rows[0..elements) are the registers, rows[elements] the address.
template <typename Element, typename Register> void loadElements(Warp &warp, const Op &op, uint32_t mask) {
  LanePointers lanes;
  resolve(warp, op, op.rows[op.elements], mask, sizeof(Element) * op.elements, lanes);
  for (uint32_t i = 0; i < op.elements; ++i) {
    Register *result = warp.row<Register>(op.rows[i]);
    forLanes(lanes.lanes, [&](uint32_t lane) {
      Element element;
      std::memcpy(&element, lanes.pointers[lane] + i * sizeof(Element), sizeof(Element));
      result[lane] = static_cast<Register>(element);
    });
  }
}

template <typename Element, typename Register> void storeElements(Warp &warp, const Op &op, uint32_t mask) {
  LanePointers lanes;
  resolve(warp, op, op.rows[op.elements], mask, sizeof(Element) * op.elements, lanes);
  // Lane after lane: when several store to one place, the highest wins. PTX leaves it open.
  forLanes(lanes.lanes, [&](uint32_t lane) {
    for (uint32_t i = 0; i < op.elements; ++i) {
      const Element element = static_cast<Element>(warp.row<Register>(op.rows[i])[lane]);
      std::memcpy(lanes.pointers[lane] + i * sizeof(Element), &element, sizeof(Element));
    }
  });
}

/// The kernel's parameters are the same for all lanes, so the common case needs no addresses.
template <typename Element> void loadParameter(Warp &warp, const Op &op, uint32_t mask) {
  const std::vector<uint8_t> &parameters = warp.block->grid.request.parameters;
  for (uint32_t i = 0; i < op.elements; ++i) {
    Element element;
    std::memcpy(&element, parameters.data() + op.offset + i * sizeof(Element), sizeof(Element));
    Element *result = warp.row<Element>(op.rows[i]);
    forLanes(mask, [&](uint32_t lane) { result[lane] = element; });
  }
}

template <typename Element> Handler loadInto(uint32_t registerBytes) {
  if (registerBytes == 8)
    return &loadElements<Element, std::conditional_t<std::is_signed_v<Element>, int64_t, uint64_t>>;
  if (registerBytes == 4)
    return &loadElements<Element, std::conditional_t<std::is_signed_v<Element>, int32_t, uint32_t>>;
  return &loadElements<Element, std::conditional_t<std::is_signed_v<Element>, int16_t, uint16_t>>;
}

template <typename Element> Handler storeFrom(uint32_t registerBytes) {
  return registerBytes == 8   ? &storeElements<Element, uint64_t>
         : registerBytes == 4 ? &storeElements<Element, uint32_t>
                              : &storeElements<Element, uint16_t>;
}

Handler loadHandler(uint32_t elementBytes, bool isSigned, uint32_t registerBytes) {
  switch (elementBytes) {
  case 1:
    return isSigned ? loadInto<int8_t>(registerBytes) : loadInto<uint8_t>(registerBytes);
  case 2:
    return isSigned ? loadInto<int16_t>(registerBytes) : loadInto<uint16_t>(registerBytes);
  case 4:
    return isSigned ? loadInto<int32_t>(registerBytes) : loadInto<uint32_t>(registerBytes);
  default:
    return loadInto<uint64_t>(registerBytes);
  }
}

Handler storeHandler(uint32_t elementBytes, uint32_t registerBytes) {
  return elementBytes == 1   ? storeFrom<uint8_t>(registerBytes)
         : elementBytes == 2 ? storeFrom<uint16_t>(registerBytes)
         : elementBytes == 4 ? storeFrom<uint32_t>(registerBytes)
                             : storeFrom<uint64_t>(registerBytes);
}

Handler parameterHandler(uint32_t elementBytes) {
  return elementBytes == 2   ? &loadParameter<uint16_t>
         : elementBytes == 4 ? &loadParameter<uint32_t>
                             : &loadParameter<uint64_t>;
}

Status decodeAccess(Decoder &decoder, const ptx::Instruction &instruction) {
  SLUICE_RETURN_IF_ERROR(decoder.expectOperands(instruction, 2));
  const bool isStore = instruction.opcode == "st";
  MemoryModifiers modifiers = parseMemoryModifiers(instruction);
  const uint32_t elementBytes = modifiers.others.size() == 1 ? ptx::typeBytes(modifiers.others[0]) : 0;
  if (elementBytes == 0 || elementBytes > 8 || modifiers.elements > 4 ||
      elementBytes * modifiers.elements > 16)
    return decoder.unsupported(instruction);
  const ptx::Operand &value = instruction.operands[isStore ? 1 : 0];
  const ptx::Operand &address = instruction.operands[isStore ? 0 : 1];
  std::vector<ptx::Operand> elements = {value};
  if (value.kind == ptx::Operand::Kind::Vector)
    elements = value.elements;
  if (elements.size() != modifiers.elements)
    return decoder.error(instruction, concat(modifiers.elements, " elements, found ", elements.size()));
  std::vector<uint32_t> rows;
  uint8_t registerBytes = 0;
  for (const ptx::Operand &element : elements) {
    uint8_t bytes = static_cast<uint8_t>(std::max<uint32_t>(2, elementBytes));
    if (!isStore && element.kind == ptx::Operand::Kind::Name &&
        decoder.registerBytes(instruction, element) == 0)
      return decoder.error(instruction, "a register to write");
    if (element.kind == ptx::Operand::Kind::Sink && registerBytes != 0)
      bytes = registerBytes;
    SLUICE_ASSIGN_OR_RETURN(const uint32_t row, decoder.anyRegister(instruction, element, bytes));
    if (bytes < elementBytes || (registerBytes != 0 && bytes != registerBytes))
      return decoder.error(instruction, "registers of one width, as wide as the type");
    registerBytes = bytes;
    rows.push_back(row);
  }
  Op access;
  access.space = modifiers.space;
  access.elements = static_cast<uint8_t>(elements.size());
  SLUICE_RETURN_IF_ERROR(decoder.address(instruction, address, access, access.elements));
  Op &op = decoder.emit(instruction, OpKind::Memory);
  op.space = access.space;
  op.offset = access.offset;
  op.addressBytes = access.addressBytes;
  op.elements = access.elements;
  op.elementBytes = static_cast<uint8_t>(elementBytes);
  op.registerBytes = registerBytes;
  std::copy(rows.begin(), rows.end(), op.rows.begin());
  op.rows[op.elements] = access.rows[op.elements];
  op.isStore = isStore;
  op.isLoad = !isStore;
  op.isVolatile = modifiers.isVolatile;
  op.acquires = modifiers.acquires;
  op.releases = modifiers.releases;
  const bool isSigned = modifiers.others[0][0] == 's';
  op.handler = isStore ? storeHandler(elementBytes, registerBytes)
                       : loadHandler(elementBytes, isSigned, registerBytes);
  // A flag that is awaited must be set by a block that ran before.
  if (modifiers.isVolatile && op.space != AddressSpace::Shared)
    decoder.setOrdered();
  const bool wholeParameter = op.space == AddressSpace::Param && op.addressBytes == 0 && !isStore &&
                              elementBytes >= 2 && registerBytes == elementBytes;
  if (wholeParameter && decoder.isInParameters(op.offset, elementBytes * op.elements)) {
    op.kind = OpKind::Plain;
    op.handler = parameterHandler(elementBytes);
  }
  return absl::OkStatus();
}

void runFence(Warp &warp, const Op &, uint32_t) {
  if (warp.block->grid.checks(Check::Race))
    fence(warp.clock, warpKey(warp.block->linear, warp.index));
}

void runNothing(Warp &, const Op &, uint32_t) {}

/// membar.gl, fence.acq_rel.gpu. A fence for the block alone orders nothing for other blocks.
Status decodeFence(Decoder &decoder, const ptx::Instruction &instruction) {
  bool known = !instruction.modifiers.empty();
  for (const std::string &modifier : instruction.modifiers)
    known &= modifier == "gl" || modifier == "sys" || modifier == "cta" || modifier == "gpu" ||
             modifier == "acq_rel" || modifier == "sc";
  if (!known)
    return decoder.unsupported(instruction);
  Op &op = decoder.emit(instruction);
  op.handler = instruction.modifiers.back() == "cta" ? &runNothing : &runFence;
  return absl::OkStatus();
}

Status decodeHint(Decoder &decoder, const ptx::Instruction &instruction) {
  decoder.emit(instruction).handler = &runNothing;
  return absl::OkStatus();
}

} // namespace

void addMemoryRows(InstructionTable &table) {
  table.addDecoded("ld", &decodeAccess);
  table.addDecoded("ldu", &decodeAccess);
  table.addDecoded("st", &decodeAccess);
  table.addDecoded("membar", &decodeFence);
  table.addDecoded("fence", &decodeFence);
  table.addDecoded("prefetch", &decodeHint);
  table.addDecoded("prefetchu", &decodeHint);
  table.addDecoded("nanosleep", &decodeHint);
}

} // namespace sluice::cudasim
