#include "runtime/device/cpu/BreakEvenCache.h"

#include "runtime/device/cpu/SparseCalibration.h"
#include "runtime/device/cpu/SparseProduct.h"
#include "runtime/support/CacheFolder.h"
#include "runtime/support/File.h"
#include "runtime/support/Hash.h"

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

namespace sluice::cpu {
namespace {

/// Raised when the kernels change so much that old measurements mislead.
constexpr int kernelsVersion = 2;

/// Family, model and name of the first processor: the name alone is the same for many on virtual machines.
std::string processorName() {
  std::ifstream lines("/proc/cpuinfo");
  std::string found;
  for (std::string line; std::getline(lines, line) && !line.empty();)
    for (const char *key : {"cpu family", "model"})
      if (line.rfind(key, 0) == 0)
        found += line + "\n";
  return found.empty() ? "unknown processor" : found;
}

std::optional<BreakEven> parse(const std::string &text) {
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  auto percent = [&](const char *name) -> double {
    const bool there = json.is_object() && json.contains(name) && json[name].is_number();
    const double value = there ? json[name].get<double>() : -1;
    return value >= 0 && value <= 100 ? value : -1;
  };
  const BreakEven read{percent("product"), percent("input_gradient"), percent("weight_gradient")};
  if (read.product < 0 || read.inputGradient < 0 || read.weightGradient < 0)
    return std::nullopt;
  return read;
}

} // namespace

BreakEven knownBreakEven(const MaskedShape &shape) {
  const std::string folder = cacheFolder();
  if (folder.empty())
    return measureBreakEven(shape);
  const std::string key =
      sha256Hex(concat(kernelsVersion, "\n", processorName(), "\n", sparsePanelTokens(), "\n", shape.outputs,
                       "x", shape.inputs, " ", shape.blockRows, "x", shape.blockColumns));
  const std::string path = concat(folder, "/break-even/", key, ".json");
  if (StatusOr<std::string> found = readFile(path); found.ok())
    if (std::optional<BreakEven> known = parse(*found))
      return *known;
  const BreakEven measured = measureBreakEven(shape);
  const nlohmann::json json = {{"outputs", shape.outputs},
                               {"inputs", shape.inputs},
                               {"block", {shape.blockRows, shape.blockColumns}},
                               {"product", measured.product},
                               {"input_gradient", measured.inputGradient},
                               {"weight_gradient", measured.weightGradient}};
  std::error_code ignored;
  std::filesystem::create_directories(folder + "/break-even", ignored);
  writeFileAtomically(path, json.dump()).IgnoreError(); // a cache that cannot be written is only slow
  return measured;
}

} // namespace sluice::cpu
