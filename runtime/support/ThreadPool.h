// A fixed pool of threads that runs numbered tiles. Which thread runs a tile never matters: results depend on
// the tile's index alone, so any thread count gives the same bits.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace sluice {

class ThreadPool {
public:
  /// A tile body: `context`, the tile's index, and the worker (0 <= worker < threads()) for its scratch
  /// memory.
  using Body = void (*)(void *context, int64_t tile, int worker);

  /// `threads` >= 1 counts the caller too; 1 starts no thread.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool &) = delete;
  ThreadPool &operator=(const ThreadPool &) = delete;

  int threads() const { return static_cast<int>(workers.size()) + 1; }

  /// Runs tiles 0 .. count-1 in increasing order of start, returns when all are done. The caller works too.
  /// Put the largest tiles first. Bodies must not throw and must not call run() again. Allocates nothing.
  void run(int64_t count, Body body, void *context);

  /// The same for a callable `void(int64_t tile, int worker)`, without allocation.
  template <typename Callable> void forEach(int64_t count, Callable &&callable) {
    run(
        count,
        [](void *context, int64_t tile, int worker) {
          (*static_cast<std::remove_reference_t<Callable> *>(context))(tile, worker);
        },
        &callable);
  }

private:
  void work(int worker);
  void drain(int worker);

  std::vector<std::thread> workers;
  std::mutex mutex;
  std::condition_variable wake, finished;
  uint64_t generation = 0;
  int running = 0;
  bool stopping = false;
  Body body = nullptr;
  void *context = nullptr;
  int64_t count = 0;
  std::atomic<int64_t> next{0};
};

} // namespace sluice
