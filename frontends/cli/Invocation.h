// What every subcommand shares: the options that all take, and the action that the command line chose.
#pragma once

#include "runtime/device/Device.h"
#include "runtime/schema/ExecutableDescription.h"
#include "runtime/support/Status.h"

#include <CLI/CLI.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace sluice::cli {

/// Filled while the command line is parsed, then run once.
struct Invocation {
  int threads = 0; // 0: all cores
  bool quiet = false;
  std::function<Status()> action;
};

/// The device of `--device` for running programs. Errors: a device that does not exist here.
StatusOr<std::unique_ptr<Device>> openDevice(const std::string &name, const Invocation &invocation);

/// Adds `--device`, whose default `device` holds, to a subcommand that runs programs.
void addDevice(CLI::App &command, std::string &device);

/// Adds `--threads` (and, for long work, `--quiet`) to a subcommand.
void addThreads(CLI::App &command, Invocation &invocation);

/// Checks of an option's value whose messages say what was expected and found: a whole number within bounds,
/// one of some words.
CLI::Validator wholeNumber(int64_t least, int64_t most = INT64_MAX);
CLI::Validator oneOf(const std::vector<std::string> &words);

/// A model to train: the resolved spec that it came from (empty if it came from none), and a way to its
/// executable, which compiles only when asked, for these targets beside the CPU.
struct ResolvedModel {
  std::string spec;
  std::function<StatusOr<Executable>(const std::vector<std::string> &targets)> executable;
};
/// The simulated CUDA driver beside this program, or the file that SLUICE_CUDA_SIM names. Error:
/// it is not there.
StatusOr<std::string> simulatedDriver();

/// The targets beside the CPU that a program for this device needs: PTX that any CUDA device takes, or none.
std::vector<std::string> targetsFor(const std::string &device);

/// Turns MODEL of `train` into something to train. `assignments` are the `--set` options that concern the
/// model, and `vocabulary` the data's. sluice-run knows executables only; sluice compiles specs, graphs and
/// configs.
using ModelResolver = std::function<StatusOr<ResolvedModel>(
    const std::string &model, const std::vector<std::string> &assignments, int64_t vocabulary)>;

/// Parses the command line, runs the chosen action, prints an error as one paragraph, returns the exit code.
int runProgram(CLI::App &app, Invocation &invocation, int argc, char **argv);

} // namespace sluice::cli
