#include "frontends/cli/Invocation.h"

#include "runtime/device/cpu/CpuDevice.h"

#include <cstdio>
#include <thread>

namespace sluice::cli {

StatusOr<std::unique_ptr<Device>> openDevice(const std::string &name, const Invocation &invocation) {
  if (name != "cpu")
    return usageError("--device: expected cpu, found '", name, "'; no other device is built in");
  int threads = invocation.threads;
  if (threads == 0)
    threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  return createCpuDevice(threads);
}

void addThreads(CLI::App &command, Invocation &invocation) {
  command.add_option("--threads", invocation.threads, "Threads to use (default: all cores); results do not depend on it")
      ->check(CLI::Range(1, 1024));
}

int runProgram(CLI::App &app, Invocation &invocation, int argc, char **argv) {
  app.set_version_flag("--version", app.get_name() + " 0.1.0");
  app.require_subcommand(1);
  app.failure_message([](const CLI::App *parsed, const CLI::Error &error) {
    std::string hint = parsed->get_name();
    return concat(hint, ": error: ", error.what(), "\n  `", hint, " --help` lists what is possible\n");
  });
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    int code = app.exit(error);
    return code == 0 ? 0 : static_cast<int>(ExitCode::Usage);
  }
  Status status = invocation.action ? invocation.action() : usageError("nothing to do");
  if (status.ok())
    return 0;
  std::fflush(stdout);
  std::fprintf(stderr, "%s: error: %s\n", app.get_name().c_str(), std::string(status.message()).c_str());
  return static_cast<int>(exitCode(status));
}

} // namespace sluice::cli
