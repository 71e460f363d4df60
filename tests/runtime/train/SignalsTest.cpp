// Requests to stop: noticed once, handled on a stack of their own, in the thread that asked for them alone.
#include "runtime/train/Signals.h"

#include "runtime/support/ThreadPool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <csignal>

namespace sluice {
namespace {

TEST(StopSignals, AreHandledOnAStackOfTheirOwn) {
  stack_t before{}, during{}, after{};
  struct sigaction handler{};
  ::sigaltstack(nullptr, &before);
  {
    const StopSignals signals;
    EXPECT_EQ(signals.requested(), 0);
    ::sigaltstack(nullptr, &during);
    EXPECT_EQ(during.ss_flags & SS_DISABLE, 0);
    EXPECT_GE(during.ss_size, 16384u) << "a frame with all vector registers, and the handler's own";
    for (int signal : {SIGINT, SIGTERM, SIGUSR1}) {
      ::sigaction(signal, nullptr, &handler);
      EXPECT_NE(handler.sa_flags & SA_ONSTACK, 0) << signalName(signal);
    }
    std::raise(SIGTERM);
    EXPECT_EQ(signals.requested(), SIGTERM);
  }
  ::sigaltstack(nullptr, &after);
  EXPECT_EQ(after.ss_sp, before.ss_sp);
  EXPECT_EQ(after.ss_flags, before.ss_flags);
  ::sigaction(SIGINT, nullptr, &handler);
  EXPECT_EQ(handler.sa_flags & SA_ONSTACK, 0);
}

TEST(StopSignals, NoThreadOfAPoolGetsThem) {
  ThreadPool pool(3);
  std::atomic<int> wrong{0};
  pool.forEach(300, [&](int64_t, int worker) {
    sigset_t blocked;
    ::pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
    for (int signal : {SIGINT, SIGTERM, SIGUSR1})
      if ((sigismember(&blocked, signal) == 1) != (worker != 0))
        ++wrong;
  });
  EXPECT_EQ(wrong, 0);
}

} // namespace
} // namespace sluice
