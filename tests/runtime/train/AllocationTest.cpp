// Our code allocates nothing per step: every call of operator new is counted while steps run.
#include "runtime/data/Pack.h"
#include "runtime/train/StepRunner.h"
#include "runtime/train/TrainingData.h"
#include "tests/runtime/data/TestData.h"
#include "tests/runtime/executor/FakeDevice.h"
#include "tests/runtime/executor/TinyModel.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {
std::atomic<long> allocations{0};
} // namespace

void *operator new(size_t size) {
  ++allocations;
  if (void *memory = std::malloc(size ? size : 1))
    return memory;
  std::abort();
}
void operator delete(void *memory) noexcept {
  std::free(memory);
}
void operator delete(void *memory, size_t) noexcept {
  std::free(memory);
}

namespace sluice {
namespace {

TEST(Allocation, AStepAllocatesNothing) {
  test::TemporaryFolder folder;
  PackOptions pack = test::packOptions(folder, test::seededText(7, 200));
  ASSERT_OK(packDataset(pack).status());
  auto description = testing::tinyModel(
      {.vocabulary = 320, .experts = 4, .training = R"({"batch_tokens": 64, "lr": 1, "tokens": 64})"});
  Executable model = *parseExecutable(serializeExecutable(description), "tiny.slx");
  testing::FakeDevice device;
  Session session = *Session::create(model, device);
  // The device computes nothing, but every micro-batch of 2 x 8 targets has them counted.
  Operand counted = **session.output("accumulate", "tokens");
  device.onExecute = [&](size_t) {
    float all = 16;
    (void)device.memories[counted.arena]->write(counted.offset, &all, sizeof all);
  };
  StepRunner runner = *StepRunner::create(session, 64);
  auto data =
      *TrainingData::open(description, *readTrainingConfig(description.training, {}), folder / "data");
  StepSums sums = runner.emptySums();
  ASSERT_OK(runner.run(data->training, 0, 1, 1e-3, sums)); // prepares
  long before = allocations;
  for (int64_t step = 2; step < 10; ++step) {
    ASSERT_OK(runner.start(data->training, static_cast<uint64_t>(step) * runner.windows(), step, 1e-3));
    while (runner.inFlight() > (step < 9 ? 1 : 0))
      ASSERT_OK(runner.finish(sums));
  }
  EXPECT_EQ(allocations - before, 0);
  EXPECT_EQ(sums.steps, 9);
}

} // namespace
} // namespace sluice
