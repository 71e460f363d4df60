#include "runtime/executor/Inspect.h"

#include "runtime/executor/MemoryPlan.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

namespace sluice {
namespace {

constexpr size_t columns = 100;

/// `text` in at most `width` characters; a longer one loses its middle.
std::string fit(const std::string &text, size_t width) {
  if (text.size() <= width)
    return text;
  size_t head = (width - 2) / 2, tail = width - 2 - head;
  return text.substr(0, head) + ".." + text.substr(text.size() - tail);
}

/// 61551411200 as "61,551,411,200".
std::string grouped(const std::string &digits) {
  std::string result;
  for (size_t index = 0; index < digits.size(); ++index) {
    if (index > 0 && (digits.size() - index) % 3 == 0)
      result += ',';
    result += digits[index];
  }
  return result;
}

std::string shapeText(const Operand &operand) {
  std::string text(elementTypeName(operand.type));
  text += "[";
  for (size_t index = 0; index < operand.shape.size(); ++index)
    text += concat(index ? "," : "", operand.shape[index]);
  return text + "]";
}

std::string bindingsText(const std::vector<DimensionBinding> &bindings) {
  std::string text;
  for (const DimensionBinding &binding : bindings)
    text += concat(text.empty() ? "" : ", ", binding.name, " = ", binding.value);
  return text.empty() ? "none" : text;
}

void header(std::string &out, const Executable &executable) {
  const ExecutableDescription &model = executable.description;
  auto line = [&](const char *key, const std::string &value) {
    out += absl::StrFormat("  %-10s %s\n", key, fit(value, columns - 13));
  };
  std::string targets;
  for (const std::string &target : model.targets)
    targets += concat(targets.empty() ? "" : ", ", target);
  out += "Executable\n";
  line("model", model.model);
  line("bindings", bindingsText(model.bindings));
  line("targets", targets.empty() ? "none" : targets);
  line("format", concat("version ", model.formatVersion, ", ", executable.bytes.size(), " bytes, written by ",
                        model.producer));
  line("sha256", executable.sha256);
}

void memory(std::string &out, const ExecutableDescription &model, const InspectOptions &options) {
  out += concat("\nMemory\n", formatMemoryPlan(model));
  std::map<TensorRole, std::pair<int64_t, uint64_t>> roles;
  std::vector<const StateTensor *> sorted;
  for (const StateTensor &tensor : model.tensors) {
    auto &[count, bytes] = roles[tensor.role];
    ++count;
    bytes += tensor.place.bytes();
    sorted.push_back(&tensor);
  }
  out += "\nState\n";
  out += absl::StrFormat("  %-24s %12s %14s %12s\n", "role", "tensors", "bytes", "");
  for (const auto &[role, sum] : roles)
    out += absl::StrFormat("  %-24s %12d %14d %12s\n", std::string(tensorRoleName(role)), sum.first,
                           sum.second, formatBytes(sum.second));
  std::sort(sorted.begin(), sorted.end(), [](const StateTensor *a, const StateTensor *b) {
    uint64_t left = a->place.bytes(), right = b->place.bytes();
    return left != right ? left > right : a < b; // as in the file where they are equal
  });
  if (sorted.size() > static_cast<size_t>(options.largestTensors))
    sorted.resize(options.largestTensors);
  out += "\nLargest tensors\n";
  for (const StateTensor *tensor : sorted)
    out += absl::StrFormat("  %-48s %-24s %12s\n", fit(tensor->name, 48), fit(shapeText(tensor->place), 24),
                           formatBytes(tensor->place.bytes()));
}

/// The sum of decimal counts; they fit 128 bits, of which the low 64 suffice for a program.
uint64_t flopsOf(const EntryPoint &entry, size_t command) {
  return command < entry.flops.size() ? std::strtoull(entry.flops[command].c_str(), nullptr, 10) : 0;
}

void commandGroups(std::string &out, const EntryPoint &entry) {
  struct Group {
    std::string name;
    int64_t count = 0;
    uint64_t flops = 0;
  };
  std::vector<Group> groups;
  for (size_t index = 0; index < entry.commands.size(); ++index) {
    const Command &command = entry.commands[index];
    std::string name = command.kind;
    if (name == "launch")
      if (StatusOr<std::string> kernel = command.text("kernel"); kernel.ok())
        name += " " + *kernel;
    auto found =
        std::find_if(groups.begin(), groups.end(), [&](const Group &group) { return group.name == name; });
    if (found == groups.end())
      found = groups.insert(groups.end(), Group{name});
    ++found->count;
    found->flops += flopsOf(entry, index);
  }
  std::sort(groups.begin(), groups.end(), [](const Group &a, const Group &b) {
    return a.flops != b.flops ? a.flops > b.flops : a.name < b.name;
  });
  for (const Group &group : groups)
    out += absl::StrFormat("    %-54s %6d %30s\n", fit(group.name, 54), group.count,
                           grouped(concat(group.flops)));
}

void commandList(std::string &out, const EntryPoint &entry) {
  for (size_t index = 0; index < entry.commands.size(); ++index) {
    const Command &command = entry.commands[index];
    std::string dependencies;
    for (uint32_t dependency : command.dependencies)
      dependencies += concat(dependencies.empty() ? "" : ",", dependency);
    out += absl::StrFormat("    %5d %-28s %-36s %-20s\n", index, fit(command.kind, 28),
                           fit(command.origin, 36), fit("<- " + dependencies, 20));
  }
}

void entries(std::string &out, const ExecutableDescription &model, const InspectOptions &options) {
  out += "\nEntry points\n";
  for (const EntryPoint &entry : model.entries) {
    uint64_t flops = 0;
    for (size_t index = 0; index < entry.commands.size(); ++index)
      flops += flopsOf(entry, index);
    out += absl::StrFormat("  %-56s %6d %30s\n", fit(entry.name, 56), entry.commands.size(),
                           grouped(concat(flops)) + " flops");
    if (!entry.bindings.empty())
      out += concat("    bindings ", fit(bindingsText(entry.bindings), columns - 13), "\n");
    for (const NamedOperand &input : entry.inputs)
      out += absl::StrFormat("    in   %-48s %s\n", fit(input.name, 48), fit(shapeText(input.operand), 40));
    for (const NamedOperand &output : entry.outputs)
      out += absl::StrFormat("    out  %-48s %s\n", fit(output.name, 48), fit(shapeText(output.operand), 40));
    if (options.allCommands)
      commandList(out, entry);
    else
      commandGroups(out, entry);
  }
}

void kernels(std::string &out, const ExecutableDescription &model) {
  out += "\nKernels\n";
  if (model.kernels.empty())
    out += "  none: every command is of the device's library\n";
  for (const KernelImageDescription &kernel : model.kernels) {
    out += absl::StrFormat("  %-24s %6d kernels %12s code %12s source\n", fit(kernel.target, 24),
                           kernel.kernels.size(), formatBytes(kernel.image.size()),
                           formatBytes(kernel.source.size()));
    for (const std::string &name : kernel.kernels)
      out += concat("    ", fit(name, columns - 4), "\n");
  }
}

/// The counts at the top of the ledger: every text or number up to three objects deep, as
/// "flops.forward.ideal".
void ledgerLines(std::string &out, const nlohmann::json &value, const std::string &path, int depth) {
  if (value.is_object() && depth < 3) {
    for (const auto &[key, inner] : value.items())
      ledgerLines(out, inner, path.empty() ? key : path + "." + key, depth + 1);
  } else if (value.is_string() || value.is_number()) {
    std::string text = value.is_string() ? value.get<std::string>() : value.dump();
    bool digits = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
    out += absl::StrFormat("  %-48s %40s\n", fit(path, 48), fit(digits ? grouped(text) : text, 40));
  }
}

} // namespace

std::string inspectExecutable(const Executable &executable, const InspectOptions &options) {
  const ExecutableDescription &model = executable.description;
  std::string out;
  header(out, executable);
  memory(out, model, options);
  entries(out, model, options);
  kernels(out, model);
  out += "\nLedger\n";
  auto ledger = nlohmann::json::parse(model.ledger, nullptr, /*allow_exceptions=*/false);
  if (ledger.is_object())
    ledgerLines(out, ledger, "", 0);
  else
    out += "  none\n";
  return out;
}

StatusOr<std::string> kernelSource(const Executable &executable, const std::string &name) {
  std::string known;
  for (const KernelImageDescription &image : executable.description.kernels) {
    if (image.source.empty())
      continue;
    // Units begin with their file's name as a comment.
    if (size_t at = image.source.find(" " + name + "("); at != std::string::npos) {
      size_t begin = image.source.rfind("\n// ", at), end = at;
      while (begin != std::string::npos &&
             image.source.compare(image.source.find('\n', begin + 1) - 3, 3, ".cu") != 0)
        begin = begin == 0 ? std::string::npos : image.source.rfind("\n// ", begin - 1);
      begin = begin == std::string::npos ? 0 : begin + 1;
      do
        end = image.source.find("\n// ", end + 1);
      while (end != std::string::npos &&
             image.source.compare(image.source.find('\n', end + 1) - 3, 3, ".cu") != 0);
      return image.source.substr(begin, end == std::string::npos ? end : end - begin + 1);
    }
    for (const std::string &kernel : image.kernels)
      known += "\n  " + kernel;
  }
  return usageError("--source: expected a kernel with source in the executable, found '", name, "'",
                    known.empty() ? std::string("; it keeps none: compile with --target cuda:sm_80")
                                  : "; there are" + known);
}

} // namespace sluice
