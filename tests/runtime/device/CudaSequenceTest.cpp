// Sequences of the CUDA device: one graph, two in flight, every wait and event needed; and what an error of
// replayed work says.
#include "tests/runtime/device/CudaExecutor.h"

#include "runtime/device/cuda/ModuleArchive.h"

#include <cstdlib>
#include <cstring>

namespace sluice::cuda {
namespace {

using Kind = SequenceStep::Kind;

/// A memory, a program over it (16 bytes at 64 become those at 0) and two sequences of the same steps: 16
/// bytes in, the program twice around a second copy in, 16 bytes out.
struct TwoInFlight {
  std::unique_ptr<DeviceMemory> memory;
  std::unique_ptr<DeviceProgram> program;
  std::unique_ptr<DeviceSequence> sequences[2];

  Status create(Device &device) {
    SLUICE_ASSIGN_OR_RETURN(memory, device.allocate(256));
    const Operand from{ElementType::I32, {4}, 0, 0}, to{ElementType::I32, {4}, 0, 64};
    const std::vector<Command> commands = {{"copy", "move", {from}, {to}, {}, {}}};
    DeviceMemory *const arenas[] = {memory.get()};
    SLUICE_ASSIGN_OR_RETURN(program, device.prepare(commands, arenas));
    const SequenceStep steps[] = {{Kind::CopyIn, nullptr, memory.get(), 0, 16, 0},
                                  {Kind::Run, program.get()},
                                  {Kind::CopyOut, nullptr, memory.get(), 64, 16, 32},
                                  {Kind::CopyIn, nullptr, memory.get(), 0, 16, 16},
                                  {Kind::Run, program.get()},
                                  {Kind::CopyOut, nullptr, memory.get(), 64, 16, 48}};
    for (auto &sequence : sequences) {
      SLUICE_ASSIGN_OR_RETURN(sequence, device.createSequence("a test", steps, 64));
    }
    return absl::OkStatus();
  }
  /// Fills the inputs of a sequence with numbers from `first` on and runs it.
  Status start(DeviceSequence &sequence, int32_t first) {
    std::vector<int32_t> values(8);
    for (int32_t &value : values)
      value = first++;
    std::memcpy(sequence.room(), values.data(), 32);
    return sequence.run();
  }
  /// Whether the results of the run with `first` are there after a wait.
  bool arrives(DeviceSequence &sequence, int32_t first) {
    if (!sequence.wait().ok())
      return false;
    for (int32_t i = 0; i < 8; ++i) {
      int32_t value = 0;
      std::memcpy(&value, sequence.room() + 32 + 4 * i, 4);
      if (value != first + i)
        return false;
    }
    return true;
  }
};

/// Three runs through two sequences, one always in flight while the last is looked at.
bool resultsSurvive(Device &device) {
  TwoInFlight two;
  return two.create(device).ok() && two.start(*two.sequences[0], 1).ok() &&
         two.start(*two.sequences[1], 101).ok() && two.arrives(*two.sequences[0], 1) &&
         two.start(*two.sequences[0], 201).ok() && two.arrives(*two.sequences[1], 101) &&
         two.arrives(*two.sequences[0], 201);
}

TEST_F(CudaExecutor, ASequenceIsOneGraphAndWaitsForNothing) {
  StatusOr<std::unique_ptr<Device>> device = deviceWith(count);
  ASSERT_TRUE(device.ok()) << device.status();
  loadLibrary(**device);
  TwoInFlight two;
  ASSERT_TRUE(two.create(**device).ok());
  calls = {};
  ASSERT_TRUE(two.start(*two.sequences[0], 1).ok());
  ASSERT_TRUE(two.start(*two.sequences[1], 101).ok());
  EXPECT_EQ(calls.graphs, 2);
  EXPECT_EQ(calls.kernels + calls.copies + calls.streamWaits + calls.eventWaits, 0);
  EXPECT_TRUE(two.arrives(*two.sequences[0], 1));
  EXPECT_TRUE(two.arrives(*two.sequences[1], 101));
  EXPECT_EQ(calls.eventWaits, 2);
  EXPECT_EQ(calls.streamWaits, 0);
}

TEST_F(CudaExecutor, AVeryLongSequenceIsAGraphAProgram) {
  StatusOr<std::unique_ptr<Device>> device = deviceWith(count);
  ASSERT_TRUE(device.ok()) << device.status();
  loadLibrary(**device);
  TwoInFlight two;
  ASSERT_TRUE(two.create(**device).ok());
  for (size_t copies : {65534u, 65535u}) { // with the program and the flag two nodes more
    std::vector<SequenceStep> steps(copies, {Kind::CopyIn, nullptr, two.memory.get(), 0, 16, 0});
    steps.push_back({Kind::Run, two.program.get()});
    auto sequence = (*device)->createSequence("a test", steps, 16);
    ASSERT_TRUE(sequence.ok()) << sequence.status();
    calls = {};
    const int32_t values[4] = {1, 2, 3, static_cast<int32_t>(copies)};
    for (int run = 0; run < 2; ++run) {
      std::memcpy((*sequence)->room(), values, 16);
      ASSERT_TRUE((*sequence)->run().ok());
      EXPECT_EQ(calls.streamWaits, 0);
      ASSERT_TRUE((*sequence)->wait().ok());
    }
    int32_t last = 0;
    ASSERT_TRUE(two.memory->read(76, &last, 4).ok());
    EXPECT_EQ(last, values[3]);
    EXPECT_EQ(calls.graphs, 2) << "of all, or of the program";
    EXPECT_EQ(calls.copies > 100, copies == 65535) << "inside the graph, or beside it";
  }
}

TEST_F(CudaExecutor, EveryEventAndWaitOfASequenceIsNeeded) {
  struct Case {
    const char *name;
    void (*change)(Driver &);
    bool survives;
  };
  for (const Case &c :
       {Case{"as it is", [](Driver &) {}, true},
        {"no wait for its event",
         [](Driver &driver) { driver.eventSynchronize = [](CUevent) { return CUresult(0); }; }, false},
        {"no event behind its work",
         [](Driver &driver) { driver.eventRecord = [](CUevent, CUstream) { return CUresult(0); }; }, false},
        {"copies to the host outside of the stream",
         [](Driver &driver) {
           driver.copyToHost = [](void *target, CUdeviceptr place, size_t size, CUstream) {
             return original.copyToHost(target, place, size, nullptr);
           };
         },
         false},
        {"copies to the device outside of the stream",
         [](Driver &driver) {
           driver.copyToDevice = [](CUdeviceptr place, const void *source, size_t size, CUstream) {
             return original.copyToDevice(place, source, size, nullptr);
           };
         },
         false},
        {"a room that is not pinned",
         [](Driver &driver) {
           driver.hostAllocate = [](void **pointer, size_t size, unsigned flags) {
             if (size != 64) // the room's
               return original.hostAllocate(pointer, size, flags);
             static std::vector<std::byte> pageable(64);
             *pointer = pageable.data();
             return CUresult(0);
           };
         },
         false}}) {
    bool survived = true;
    for (const char *settings : {"seed=0", "seed=1", "seed=2", "seed=3", "seed=4"}) {
      simulatorFunction<void()>("cudasimReset")();
      configure(settings);
      StatusOr<std::unique_ptr<Device>> device = deviceWith(c.change);
      ASSERT_TRUE(device.ok()) << device.status();
      loadLibrary(**device);
      survived = survived && resultsSurvive(**device);
    }
    EXPECT_EQ(survived, c.survives) << c.name;
  }
}

TEST_F(CudaExecutor, ASequenceKeepsToItsMemoryAndItsRoom) {
  StatusOr<std::unique_ptr<Device>> device = deviceWith([](Driver &) {});
  ASSERT_TRUE(device.ok()) << device.status();
  StatusOr<std::unique_ptr<DeviceMemory>> memory = (*device)->allocate(16);
  ASSERT_TRUE(memory.ok());
  auto create = [&](SequenceStep step) {
    return (*device)->createSequence("a test", {&step, 1}, 8).status();
  };
  for (Kind kind : {Kind::CopyIn, Kind::CopyOut}) {
    EXPECT_TRUE(create({kind, nullptr, memory->get(), 8, 8, 0}).ok());
    EXPECT_FALSE(create({kind, nullptr, memory->get(), 8, 8, 4}).ok()) << "outside of the room";
    EXPECT_FALSE(create({kind, nullptr, memory->get(), 12, 8, 0}).ok()) << "outside of the memory";
  }
}

/// Commands of which the second stores far outside of any memory, as a kernel's bug does.
constexpr const char *wild = R"(.version 8.0
.target sm_80
.address_size 64
.visible .entry wild(.param .u64 place)
{
  .reg .b32 %r<2>;
  .reg .b64 %rd<2>;
  mov.u64 %rd1, 4096;
  mov.u32 %r1, 1;
  st.global.u32 [%rd1], %r1;
  ret;
}
)";

/// A driver of hardware has no words of its own for errors and knows no names of commands.
void likeHardware(Driver &driver) {
  driver.explanation = nullptr;
  driver.label = nullptr;
}

/// The error of a program of a good and a bad command, run alone or in a sequence.
Status failing(Device &device, const Command &bad, bool inSequence) {
  SLUICE_ASSIGN_OR_RETURN(std::unique_ptr<DeviceMemory> memory, device.allocate(256));
  const Operand from{ElementType::I32, {4}, 0, 0}, to{ElementType::I32, {4}, 0, 64};
  const std::vector<Command> commands = {{"copy", "embedding", {from}, {to}, {}, {}}, bad};
  DeviceMemory *const arenas[] = {memory.get()};
  SLUICE_ASSIGN_OR_RETURN(std::unique_ptr<DeviceProgram> program, device.prepare(commands, arenas));
  const int32_t tokens[4] = {1, 2, 3, 1000};
  SLUICE_RETURN_IF_ERROR(memory->write(0, tokens, sizeof tokens));
  if (!inSequence) {
    SLUICE_RETURN_IF_ERROR(program->execute());
    int32_t value = 0;
    return memory->read(0, &value, 4);
  }
  const SequenceStep step{Kind::Run, program.get()};
  SLUICE_ASSIGN_OR_RETURN(std::unique_ptr<DeviceSequence> sequence,
                          device.createSequence("a training step", {&step, 1}, 0));
  SLUICE_RETURN_IF_ERROR(sequence->run());
  return sequence->wait();
}

TEST_F(CudaExecutor, AnErrorNamesTheCommandWhenCommandsRunAlone) {
  const Operand ids{ElementType::I32, {4}, 0, 0}, table{ElementType::F32, {8, 2}, 0, 128},
      rows{ElementType::F32, {4, 2}, 0, 192};
  struct Case {
    Command command;
    const char *says;
    bool isData; // of the user's, not a bug of ours
  };
  for (const Case &c : {Case{{"launch",
                              "layers.1.norm",
                              {},
                              {rows},
                              {{"kernel", std::string("wild")},
                               {"domain", std::string("rows")},
                               {"rows", int64_t{1}},
                               {"columns", int64_t{1}}},
                              {}},
                             "CUDA error 700",
                             false},
                        Case{{"embedding", "layers.1.table", {ids, table}, {rows}, {}, {}},
                             "met an id outside its table",
                             true}})
    for (bool alone : {false, true})
      for (bool inSequence : {false, true}) {
        simulatorFunction<void()>("cudasimReset")();
        if (alone)
          ::setenv("SLUICE_CUDA_SYNC", "1", 1);
        StatusOr<std::unique_ptr<Device>> device = deviceWith(likeHardware);
        ::unsetenv("SLUICE_CUDA_SYNC");
        ASSERT_TRUE(device.ok()) << device.status();
        loadLibrary(**device);
        ASSERT_TRUE((*device)->loadKernels({"cuda:compute_80", writeModuleArchive({{{"wild"}, wild}})}).ok());
        const Status status = failing(**device, c.command, inSequence);
        const std::string text(status.message());
        EXPECT_EQ(exitCode(status), c.isData ? ExitCode::BadInput : ExitCode::Failure) << status;
        EXPECT_NE(text.find(c.says), std::string::npos) << text;
        const std::string name = concat("command ", c.command.kind, " of '", c.command.origin, "'"),
                          whole = inSequence ? "running a training step" : "running the program";
        EXPECT_EQ(text.find(name) != std::string::npos, alone) << text;
        EXPECT_EQ(text.find(whole) != std::string::npos, !alone) << text;
        EXPECT_EQ(text.find("SLUICE_CUDA_SYNC=1") != std::string::npos, !alone) << text;
      }
  ::setenv("SLUICE_CUDA_SYNC", "yes", 1);
  const Status status = deviceWith([](Driver &) {}).status();
  ::unsetenv("SLUICE_CUDA_SYNC");
  EXPECT_EQ(exitCode(status), ExitCode::Usage) << status;
}

TEST_F(CudaExecutor, CommandsThatRunAloneComputeTheSame) {
  ::setenv("SLUICE_CUDA_SYNC", "1", 1);
  StatusOr<std::unique_ptr<Device>> device = deviceWith(count);
  ::unsetenv("SLUICE_CUDA_SYNC");
  ASSERT_TRUE(device.ok()) << device.status();
  loadLibrary(**device);
  calls = {};
  EXPECT_TRUE(resultsSurvive(**device));
  EXPECT_EQ(calls.graphs, 0);
  EXPECT_EQ(calls.streamWaits, 6) << "for each command of three runs";
}

} // namespace
} // namespace sluice::cuda
