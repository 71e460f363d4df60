// A run's folder: what it keeps so that the same command continues it, and the refusal to continue anything
// else.
#pragma once

#include "runtime/schema/ExecutableDescription.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace sluice {

/// File names inside a run folder.
inline constexpr const char *runExecutableFile = "model.slx";
inline constexpr const char *runConfigFile = "config.resolved.json";
inline constexpr const char *runSpecFile = "spec.resolved.yaml";
inline constexpr const char *runMetricsFile = "metrics.jsonl";
inline constexpr const char *runTokenizerFile = "tokenizer.model";
inline constexpr const char *runDeviceFile = "device.json";

/// The executable that a run folder keeps; nothing when the folder holds no run yet. Errors: a damaged
/// executable.
StatusOr<std::optional<Executable>> runExecutable(const std::string &runFolder);

/// Compares the spec that a run was started with with `spec` (both texts, line by line). OK when the folder
/// holds no run yet or was started without a spec. Otherwise a usage error that shows the lines that differ.
Status checkRunSpec(const std::string &runFolder, const std::string &spec);

/// One line a value that differs between two configurations: "  train.lr: 0.001 in the run, 0.002 asked for".
std::string configDifference(const nlohmann::json &run, const nlohmann::json &asked);

/// Whether the folder, which exists, holds this run already. A new run's folder must be empty (a lock aside).
/// Errors (usage): a run of another configuration, with the difference; a folder with other files.
StatusOr<bool> holdsRun(const std::string &runFolder, const nlohmann::json &config);

/// Makes a run of a folder that holds none: writes model.slx, the spec if there is one, the tokenizer, and
/// the configuration last. From then on the folder accepts no other, so whatever may refuse the run comes
/// before.
Status startRun(const std::string &runFolder, const nlohmann::json &config, const Executable &executable,
                const std::string &spec, const std::string &tokenizer);

/// Writes the device's name and its choices (Device::choices) to device.json. Returns whether the file named
/// the same device with other choices before: sums of products may round otherwise since. Errors: the file
/// cannot be written.
StatusOr<bool> recordDevice(const std::string &runFolder, const std::string &device,
                            const std::vector<std::string> &choices);

} // namespace sluice
