#include "runtime/train/Signals.h"

#include <array>
#include <csignal>
#include <cstddef>
#include <unistd.h>

namespace sluice {
namespace {

constexpr int caught[] = {SIGINT, SIGTERM, SIGUSR1};
constexpr int hardInterrupt = 130;

volatile std::sig_atomic_t first = 0;
struct sigaction former[3];

/// oneDNN's AVX-512 products keep data below the stack pointer, further down than the 128 bytes that a signal
/// spares: a handler on their stack writes over it, and the heap was corrupted in 4 of 100 stopped runs. On
/// this stack it touches nothing of theirs. There is room for a frame with all vector registers.
std::array<std::byte, 65536> handlerStack;
stack_t formerStack;

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
  action.sa_flags = SA_RESTART | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  stack_t own{};
  own.ss_sp = handlerStack.data();
  own.ss_size = handlerStack.size();
  ::sigaltstack(&own, &formerStack);
  for (int index = 0; index < 3; ++index)
    ::sigaction(caught[index], &action, &former[index]);
}

StopSignals::~StopSignals() {
  for (int index = 0; index < 3; ++index)
    ::sigaction(caught[index], &former[index], nullptr);
  ::sigaltstack(&formerStack, nullptr);
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
