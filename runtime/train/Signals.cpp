#include "runtime/train/Signals.h"

#include <csignal>
#include <unistd.h>

namespace sluice {
namespace {

constexpr int caught[] = {SIGINT, SIGTERM, SIGUSR1};
constexpr int hardInterrupt = 130;

volatile std::sig_atomic_t first = 0;
struct sigaction former[3];

extern "C" void handle(int signal) {
  if (first != 0)
    ::_exit(hardInterrupt);
  first = signal;
}

} // namespace

StopSignals::StopSignals() {
  first = 0;
  struct sigaction action{};
  action.sa_handler = handle;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (int index = 0; index < 3; ++index)
    ::sigaction(caught[index], &action, &former[index]);
}

StopSignals::~StopSignals() {
  for (int index = 0; index < 3; ++index)
    ::sigaction(caught[index], &former[index], nullptr);
}

int StopSignals::requested() const {
  return first;
}

const char *signalName(int signal) {
  switch (signal) {
  case SIGINT:
    return "SIGINT";
  case SIGTERM:
    return "SIGTERM";
  case SIGUSR1:
    return "SIGUSR1";
  default:
    return "a signal";
  }
}

} // namespace sluice
