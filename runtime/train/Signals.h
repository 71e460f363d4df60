// Stopping on request: the first INT, TERM or USR1 asks the run to finish its step and save, the second ends
// the process at once (exit code 130).
#pragma once

namespace sluice {

/// Catches the signals while it lives, one object at a time; the former handlers come back with its end. They
/// are handled on a stack of their own in the thread that makes the object; the threads of a pool block them,
/// so that no other thread gets them.
class StopSignals {
public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals &) = delete;
  StopSignals &operator=(const StopSignals &) = delete;

  /// The signal that asked to stop, or 0.
  int requested() const;
};

/// "SIGINT", "SIGTERM", "SIGUSR1".
const char *signalName(int signal);

} // namespace sluice
