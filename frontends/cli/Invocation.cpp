#include "frontends/cli/Invocation.h"

#include "frontends/cli/HelpFormatter.h"
#include "runtime/device/cpu/CpuDevice.h"
#include "runtime/device/cuda/CudaDevice.h"
#include "runtime/train/Count.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <thread>

namespace sluice::cli {
namespace {

/// "sluice data pack".
std::string fullName(const CLI::App *app) {
  std::string name = app->get_name();
  for (const CLI::App *parent = app->get_parent(); parent; parent = parent->get_parent())
    name = parent->get_name() + " " + name;
  return name;
}

std::string suggestion(const std::string &word, const std::vector<std::string> &candidates) {
  std::string nearest = nearestName(word, candidates);
  return nearest.empty() ? "" : "; did you mean '" + nearest + "'?";
}

std::vector<std::string> optionNames(const CLI::App *app) {
  std::vector<std::string> names;
  for (const CLI::Option *option : app->get_options()) {
    for (const std::string &name : option->get_lnames())
      names.push_back("--" + name);
    for (const std::string &name : option->get_snames())
      names.push_back("-" + name);
  }
  return names;
}

/// What is wrong with the words given to `app`; the library says only which rule they break. A word that
/// nobody knows is named before what is missing, since it is usually the cause.
std::string wordProblem(const CLI::App *app, const CLI::ParseError &error) {
  std::vector<std::string> unknown = app->remaining(), commands;
  for (const CLI::App *command : app->get_subcommands([](const CLI::App *) { return true; }))
    commands.push_back(command->get_name());
  auto isOption = [](const std::string &word) { return word.starts_with('-') && word.size() > 1; };
  auto word = std::find_if_not(unknown.begin(), unknown.end(), isOption);
  auto option = std::find_if(unknown.begin(), unknown.end(), isOption);
  if (!commands.empty() && word != unknown.end())
    return "expected a command (" + CLI::detail::join(commands, ", ") + "), found '" + *word + "'" +
           suggestion(*word, commands);
  if (option != unknown.end()) {
    std::string name = option->substr(0, option->find('='));
    return "unknown option '" + name + "'" + suggestion(name, optionNames(app));
  }
  if (!commands.empty())
    return "expected a command: " + CLI::detail::join(commands, ", ");
  if (word != unknown.end())
    return "expected no further argument, found '" + *word + "'";
  return error.what();
}

std::string parseFailure(const CLI::App *app, const CLI::ParseError &error) {
  while (!app->get_subcommands().empty())
    app = app->get_subcommands().back();
  std::string name = fullName(app);
  return name + ": error: " + wordProblem(app, error) + "\n  `" + name + " --help` lists what is possible\n";
}

/// Gives `app` and its commands the project's help: wrapped at 100 columns.
void useHelpFormatter(CLI::App &app) {
  app.formatter(std::make_shared<HelpFormatter>());
  app.get_help_ptr()->description("Show this text");
  for (CLI::App *command : app.get_subcommands([](CLI::App *) { return true; }))
    useHelpFormatter(*command);
}

} // namespace

CLI::Validator wholeNumber(int64_t least, int64_t most) {
  return CLI::Validator(
      [=](const std::string &text) {
        int64_t value = 0;
        auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
        if (error == std::errc() && end == text.data() + text.size() && value >= least && value <= most)
          return std::string();
        return concat("expected a whole number of at least ", least,
                      most == INT64_MAX ? "" : concat(" and at most ", most), ", found '", text, "'");
      },
      "");
}

CLI::Validator oneOf(const std::vector<std::string> &words) {
  return CLI::Validator(
      [=](const std::string &text) {
        if (std::find(words.begin(), words.end(), text) != words.end())
          return std::string();
        return "expected one of " + CLI::detail::join(words, ", ") + ", found '" + text + "'" +
               suggestion(text, words);
      },
      "");
}

StatusOr<std::string> simulatedDriver() {
  if (const char *path = std::getenv("SLUICE_CUDA_SIM"))
    return std::string(path);
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::filesystem::path library = program.parent_path() / "libsluice_cudasim.so";
  if (error || !std::filesystem::exists(library, error))
    return failure("--device cuda-sim: the simulated driver was not found at ", library.string(),
                   "; build it, or name it in SLUICE_CUDA_SIM");
  return library.string();
}

std::vector<std::string> targetsFor(const std::string &device) {
  return device.rfind("cuda", 0) == 0 ? std::vector<std::string>{"cuda:sm_80"} : std::vector<std::string>();
}

StatusOr<std::unique_ptr<Device>> openDevice(const std::string &name, const Invocation &invocation) {
  if (name == "cuda-sim") {
    SLUICE_ASSIGN_OR_RETURN(std::string library, simulatedDriver());
    return createCudaDevice(library, 0, name);
  }
  if (name == "cuda" || name.rfind("cuda:", 0) == 0) {
    int ordinal = 0;
    const char *digits = name.data() + (name == "cuda" ? name.size() : 5), *end = name.data() + name.size();
    if (name != "cuda" && (std::from_chars(digits, end, ordinal).ptr != end || digits == end || ordinal < 0))
      return usageError("--device: expected cuda or cuda:N, found '", name, "'");
    return createCudaDevice("libcuda.so.1", ordinal, concat("cuda:", ordinal));
  }
  if (name != "cpu")
    return usageError("--device: expected cpu, cuda, cuda:N or cuda-sim, found '", name, "'");
  int threads = invocation.threads;
  if (threads == 0)
    threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  return createCpuDevice(threads);
}

void addDevice(CLI::App &command, std::string &device) {
  command
      .add_option(
          "--device", device,
          "Where to run: cpu, cuda, cuda:N or cuda-sim. With SLUICE_CUDA_SYNC=1 in the environment CUDA "
          "runs commands one by one, slowly, and an error names the op and layer that failed")
      ->type_name("DEVICE")
      ->capture_default_str();
}

void addThreads(CLI::App &command, Invocation &invocation) {
  command
      .add_option("--threads", invocation.threads,
                  "Threads to use (default: all cores); results do not depend on it")
      ->type_name("N")
      ->check(wholeNumber(1, 1024));
}

int runProgram(CLI::App &app, Invocation &invocation, int argc, char **argv) {
  app.set_version_flag("--version", app.get_name() + " 0.1.0", "Show the version");
  app.require_subcommand(1);
  useHelpFormatter(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    if (error.get_exit_code() == 0) // --help, --version
      return app.exit(error);
    std::fputs(parseFailure(&app, error).c_str(), stderr);
    return static_cast<int>(ExitCode::Usage);
  }
  Status status = invocation.action ? invocation.action() : usageError("nothing to do");
  if (status.ok())
    return 0;
  std::fflush(stdout);
  std::fprintf(stderr, "%s: error: %s\n", app.get_name().c_str(), std::string(status.message()).c_str());
  return static_cast<int>(exitCode(status));
}

} // namespace sluice::cli
