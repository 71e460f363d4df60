#include "runtime/support/ThreadPool.h"

#include <csignal>

namespace sluice {

ThreadPool::ThreadPool(int threads) {
  // Requests to stop are for the thread that made the pool, which handles them on a stack of its own
  // (train/Signals.cpp); threads inherit what is blocked when they start.
  sigset_t stops, former;
  sigemptyset(&stops);
  for (int signal : {SIGINT, SIGTERM, SIGUSR1})
    sigaddset(&stops, signal);
  ::pthread_sigmask(SIG_BLOCK, &stops, &former);
  for (int worker = 1; worker < threads; ++worker)
    workers.emplace_back([this, worker] { work(worker); });
  ::pthread_sigmask(SIG_SETMASK, &former, nullptr);
}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard lock(mutex);
    stopping = true;
  }
  wake.notify_all();
  for (std::thread &thread : workers)
    thread.join();
}

void ThreadPool::drain(int worker) {
  for (int64_t tile; (tile = next.fetch_add(1, std::memory_order_relaxed)) < count;)
    body(context, tile, worker);
}

void ThreadPool::run(int64_t tileCount, Body tileBody, void *tileContext) {
  if (workers.empty() || tileCount <= 1) {
    for (int64_t tile = 0; tile < tileCount; ++tile)
      tileBody(tileContext, tile, 0);
    return;
  }
  {
    std::lock_guard lock(mutex);
    body = tileBody;
    context = tileContext;
    count = tileCount;
    next.store(0, std::memory_order_relaxed);
    running = static_cast<int>(workers.size());
    ++generation;
  }
  wake.notify_all();
  drain(0);
  std::unique_lock lock(mutex);
  finished.wait(lock, [this] { return running == 0; });
}

void ThreadPool::work(int worker) {
  uint64_t seen = 0;
  for (;;) {
    {
      std::unique_lock lock(mutex);
      wake.wait(lock, [&] { return stopping || generation != seen; });
      if (stopping)
        return;
      seen = generation;
    }
    drain(worker);
    std::lock_guard lock(mutex);
    if (--running == 0)
      finished.notify_one();
  }
}

} // namespace sluice
