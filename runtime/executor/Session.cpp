#include "runtime/executor/Session.h"

#include "runtime/executor/KeptRange.h"
#include "runtime/executor/MemoryPlan.h"

#include <algorithm>

namespace sluice {
namespace {

/// Whether a kernel image is for this device: "cpu:x86-64-v3" is for "cpu", "cuda:sm_90a" for "cuda:0" and
/// "cuda-sim".
bool isFor(const KernelImageDescription &image, const std::string &device) {
  return image.target.substr(0, image.target.find(':')) == device.substr(0, device.find_first_of(":-"));
}

/// Loads the first image of the device's family that the device takes. When it takes none, the last reason
/// counts. An executable whose CPU commands are all of the device's library has no image for the CPU.
Status loadKernels(const ExecutableDescription &model, Device &device) {
  Status outcome;
  if (device.name() != "cpu")
    outcome = usageError("model '", model.model, "' holds no kernels for ", device.name(),
                         "; compile it with --target, such as --target cuda:sm_80");
  for (const KernelImageDescription &image : model.kernels) {
    if (!isFor(image, device.name()))
      continue;
    outcome = device.loadKernels({image.target, image.image});
    if (outcome.ok())
      break;
  }
  return outcome;
}

/// The names of a list, for messages.
template <typename Items> std::string namesOf(const Items &items) {
  std::string text;
  for (const auto &item : items)
    text += concat(text.empty() ? "" : ", ", item.name);
  return text.empty() ? "none" : text;
}

StatusOr<const Operand *> findNamed(const std::vector<NamedOperand> &items, std::string_view what,
                                    std::string_view entry, std::string_view name) {
  for (const NamedOperand &item : items)
    if (item.name == name)
      return &item.operand;
  return usageError("entry point '", entry, "': expected one of its ", what, "s (", namesOf(items),
                    "), found '", name, "'");
}

Status checkTransfer(const Operand &operand, ElementType type, size_t count, std::string_view entry,
                     std::string_view name) {
  if (operand.type == type && operand.elements() == static_cast<int64_t>(count))
    return absl::OkStatus();
  return usageError("entry point '", entry, "', '", name, "': expected ", operand.elements(), " elements of ",
                    elementTypeName(operand.type), ", found ", count, " of ", elementTypeName(type));
}

Status checkRange(const StateTensor &tensor, uint64_t offset, uint64_t size) {
  uint64_t bytes = tensor.bytes();
  if (offset <= bytes && size <= bytes - offset)
    return absl::OkStatus();
  return usageError("tensor '", tensor.name, "': expected a range inside its ", bytes, " bytes, found ", size,
                    " at ", offset);
}

} // namespace

Session::~Session() = default;

StatusOr<Session> Session::create(const Executable &executable, Device &device, SessionOptions options) {
  const ExecutableDescription &model = executable.description;
  uint64_t limit = options.memoryLimit > 0 ? options.memoryLimit : device.availableMemory();
  SLUICE_RETURN_IF_ERROR(checkMemoryPlan(model, plannedWorkspaces(model, device), limit, device.name()));
  Session session;
  session.model = &model;
  session.device = &device;
  for (const ArenaDescription &arena : model.arenas) {
    SLUICE_ASSIGN_OR_RETURN(std::unique_ptr<DeviceMemory> memory, device.allocate(arena.bytes));
    session.arenaPointers.push_back(memory.get());
    session.arenas.push_back(std::move(memory));
  }
  SLUICE_RETURN_IF_ERROR(loadKernels(model, device));
  session.programs.resize(model.entries.size());
  return session;
}

StatusOr<size_t> Session::find(std::string_view entry) const {
  for (size_t index = 0; index < model->entries.size(); ++index)
    if (model->entries[index].name == entry)
      return index;
  return usageError("model '", model->model, "': expected one of its entry points (", namesOf(model->entries),
                    "), found '", entry, "'");
}

Status Session::prepare(std::string_view entry) {
  SLUICE_ASSIGN_OR_RETURN(size_t index, find(entry));
  if (programs[index])
    return absl::OkStatus();
  SLUICE_ASSIGN_OR_RETURN(programs[index], device->prepare(model->entries[index].commands, arenaPointers));
  derivedStale = true; // the new program may have derived state of its own
  return absl::OkStatus();
}

StatusOr<DeviceProgram *> Session::ready(std::string_view entry) {
  SLUICE_ASSIGN_OR_RETURN(size_t index, find(entry));
  SLUICE_RETURN_IF_ERROR(prepare(entry));
  SLUICE_RETURN_IF_ERROR(refreshDerivedState());
  return programs[index].get();
}

Status Session::refreshDerivedState() {
  if (derivedStale)
    SLUICE_RETURN_IF_ERROR(device->refreshDerivedState());
  derivedStale = false;
  return absl::OkStatus();
}

Status Session::run(std::string_view entry) {
  SLUICE_ASSIGN_OR_RETURN(DeviceProgram * program, ready(entry));
  return program->execute();
}

Status Session::runCommand(std::string_view entry, size_t index) {
  SLUICE_ASSIGN_OR_RETURN(DeviceProgram * program, ready(entry));
  return program->executeCommand(index);
}

StatusOr<KeptRange> Session::keptRange(const StateTensor &tensor, uint64_t offset, uint64_t size) const {
  const StateTensor *mask = model->tensor(tensor.mask);
  if (!mask || offset % sizeof(float) != 0 || size % sizeof(float) != 0)
    return usageError("tensor '", tensor.name, "': expected whole elements of a masked tensor, found ", size,
                      " bytes at ", offset);
  std::vector<uint8_t> bits(mask->place.bytes());
  SLUICE_RETURN_IF_ERROR(readState(*mask, bits.data(), bits.size()));
  KeptRange range(bits, offset / sizeof(float), size / sizeof(float));
  if (range.first + range.count > static_cast<uint64_t>(tensor.place.elements()))
    return badInputError("tensor '", tensor.name, "': expected a mask '", tensor.mask,
                         "' that keeps at most ", tensor.place.elements(),
                         " weights, found more; was its file changed?");
  return range;
}

StatusOr<const Operand *> Session::input(std::string_view entry, std::string_view name) const {
  SLUICE_ASSIGN_OR_RETURN(size_t index, find(entry));
  return findNamed(model->entries[index].inputs, "input", entry, name);
}

StatusOr<const Operand *> Session::output(std::string_view entry, std::string_view name) const {
  SLUICE_ASSIGN_OR_RETURN(size_t index, find(entry));
  return findNamed(model->entries[index].outputs, "output", entry, name);
}

Status Session::writeNamed(std::string_view entry, std::string_view name, ElementType type,
                           const void *values, size_t count) {
  SLUICE_ASSIGN_OR_RETURN(const Operand *operand, input(entry, name));
  SLUICE_RETURN_IF_ERROR(checkTransfer(*operand, type, count, entry, name));
  return arenas[operand->arena]->write(operand->offset, values, operand->bytes());
}

Status Session::readNamed(std::string_view entry, std::string_view name, ElementType type, void *values,
                          size_t count) const {
  SLUICE_ASSIGN_OR_RETURN(const Operand *operand, output(entry, name));
  SLUICE_RETURN_IF_ERROR(checkTransfer(*operand, type, count, entry, name));
  return arenas[operand->arena]->read(operand->offset, values, operand->bytes());
}

StatusOr<float> Session::scalarOutput(std::string_view entry, std::string_view name) const {
  float value = 0;
  SLUICE_RETURN_IF_ERROR(readNamed(entry, name, ElementType::F32, &value, 1));
  return value;
}

StatusOr<SequenceStep> Session::copyNamed(std::string_view entry, std::string_view name, ElementType type,
                                          size_t count, uint64_t at) const {
  SLUICE_ASSIGN_OR_RETURN(const Operand *operand, input(entry, name));
  SLUICE_RETURN_IF_ERROR(checkTransfer(*operand, type, count, entry, name));
  return SequenceStep{SequenceStep::Kind::CopyIn, nullptr, arenaPointers[operand->arena], operand->offset,
                      operand->bytes(),           at};
}

StatusOr<SequenceStep> Session::copyOut(std::string_view entry, std::string_view name, uint64_t at) const {
  SLUICE_ASSIGN_OR_RETURN(const Operand *operand, output(entry, name));
  return SequenceStep{SequenceStep::Kind::CopyOut,
                      nullptr,
                      arenaPointers[operand->arena],
                      operand->offset,
                      operand->bytes(),
                      at};
}

StatusOr<SequenceStep> Session::execution(std::string_view entry) {
  SLUICE_ASSIGN_OR_RETURN(size_t index, find(entry));
  SLUICE_RETURN_IF_ERROR(prepare(entry));
  return SequenceStep{SequenceStep::Kind::Run, programs[index].get()};
}

Status Session::run(DeviceSequence &sequence) {
  SLUICE_RETURN_IF_ERROR(refreshDerivedState());
  return sequence.run();
}

Status Session::getOutputPart(std::string_view entry, std::string_view name, int64_t first,
                              absl::Span<float> values) const {
  SLUICE_ASSIGN_OR_RETURN(const Operand *operand, output(entry, name));
  int64_t count = static_cast<int64_t>(values.size());
  if (operand->type != ElementType::F32 || first < 0 || first > operand->elements() - count)
    return usageError("entry point '", entry, "', '", name, "': expected a range inside ",
                      operand->elements(), " elements of f32, found ", count, " from ", first, " of ",
                      elementTypeName(operand->type));
  return arenas[operand->arena]->read(operand->offset + static_cast<uint64_t>(first) * sizeof(float),
                                      values.data(), values.size() * sizeof(float));
}

Status Session::readState(const StateTensor &tensor, uint64_t offset, void *bytes, uint64_t size) const {
  SLUICE_RETURN_IF_ERROR(checkRange(tensor, offset, size));
  if (!tensor.mask.empty()) {
    SLUICE_ASSIGN_OR_RETURN(const KeptRange range, keptRange(tensor, offset, size));
    std::vector<float> kept(static_cast<size_t>(range.count));
    SLUICE_RETURN_IF_ERROR(arenas[tensor.place.arena]->read(tensor.place.offset + range.first * sizeof(float),
                                                            kept.data(), kept.size() * sizeof(float)));
    range.scatter(kept, static_cast<float *>(bytes));
    return absl::OkStatus();
  }
  return arenas[tensor.place.arena]->read(tensor.place.offset + offset, bytes, size);
}

Status Session::writeState(const StateTensor &tensor, uint64_t offset, const void *bytes, uint64_t size) {
  SLUICE_RETURN_IF_ERROR(checkRange(tensor, offset, size));
  derivedStale = true;
  if (!tensor.mask.empty()) {
    SLUICE_ASSIGN_OR_RETURN(const KeptRange range, keptRange(tensor, offset, size));
    const auto *values = static_cast<const float *>(bytes);
    if (const KeptRange::Outside outside = range.outside(values); outside.count > 0) {
      const uint64_t element = offset / sizeof(float) + outside.first,
                     columns = static_cast<uint64_t>(tensor.shape().back());
      return badInputError("'", tensor.name, "': expected zeros where '", tensor.mask,
                           "' does not keep, found ", outside.count, " other values, the first at [",
                           element / columns, ", ", element % columns,
                           "]; are these the weights of this mask? Weights of a dense model "
                           "need a spec without `sparsity`");
    }
    const std::vector<float> kept = range.gather(values);
    return arenas[tensor.place.arena]->write(tensor.place.offset + range.first * sizeof(float), kept.data(),
                                             kept.size() * sizeof(float));
  }
  return arenas[tensor.place.arena]->write(tensor.place.offset + offset, bytes, size);
}

Status Session::checkOperand(const Operand &operand, uint64_t size) const {
  if (operand.arena < 0 || static_cast<size_t>(operand.arena) >= arenas.size() || size != operand.bytes())
    return usageError("operand: expected ", operand.bytes(), " bytes of one of ", arenas.size(),
                      " arenas, found ", size, " of arena ", operand.arena);
  return absl::OkStatus();
}

Status Session::readOperand(const Operand &operand, void *values, uint64_t size) const {
  SLUICE_RETURN_IF_ERROR(checkOperand(operand, size));
  return arenas[operand.arena]->read(operand.offset, values, size);
}

Status Session::writeOperand(const Operand &operand, const void *values, uint64_t size) {
  SLUICE_RETURN_IF_ERROR(checkOperand(operand, size));
  derivedStale = true;
  return arenas[operand.arena]->write(operand.offset, values, size);
}

Status Session::readState(const StateTensor &tensor, void *bytes, uint64_t size) const {
  if (size != tensor.bytes())
    return usageError("tensor '", tensor.name, "': expected ", tensor.bytes(), " bytes, found ", size);
  return readState(tensor, 0, bytes, size);
}

StatusOr<std::string> Session::readState(std::string_view name) const {
  const StateTensor *tensor = model->tensor(name);
  if (!tensor)
    return usageError("model '", model->model, "': expected the name of a state tensor, found '", name, "'");
  std::string bytes(tensor->bytes(), '\0');
  SLUICE_RETURN_IF_ERROR(readState(*tensor, 0, bytes.data(), bytes.size()));
  return bytes;
}

Status Session::writeState(std::string_view name, std::string_view bytes) {
  const StateTensor *tensor = model->tensor(name);
  if (!tensor)
    return usageError("model '", model->model, "': expected the name of a state tensor, found '", name, "'");
  if (bytes.size() != tensor->bytes())
    return usageError("tensor '", name, "': expected ", tensor->bytes(), " bytes, found ", bytes.size());
  return writeState(*tensor, 0, bytes.data(), bytes.size());
}

Status Session::initialize(int64_t seed) {
  SLUICE_RETURN_IF_ERROR(setInput<int64_t>("init", "seed", absl::MakeConstSpan(&seed, 1)));
  SLUICE_RETURN_IF_ERROR(run("init"));
  derivedStale = true; // init writes parameters
  return absl::OkStatus();
}

} // namespace sluice
