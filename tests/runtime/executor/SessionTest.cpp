// The session: memory, names, lazy preparation.
#include "runtime/executor/Session.h"
#include "runtime/executor/MemoryPlan.h"
#include "runtime/support/HostMemory.h"
#include "tests/runtime/executor/FakeDevice.h"
#include "tests/runtime/executor/TinyModel.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

Executable executable() {
  ExecutableDescription description = testing::tinyModel();
  description.kernels.push_back({"cpu:x86-64-v3", "code", "", {"k"}});
  description.kernels.push_back({"cuda:sm_90a", "other code", "", {"k"}});
  return *parseExecutable(serializeExecutable(description), "tiny.slx");
}

TEST(Session, RefusesAPlanThatDoesNotFitBeforeAllocating) {
  Executable model = executable();
  testing::FakeDevice device;
  uint64_t planned = plannedBytes(model.description);
  StatusOr<Session> refused = Session::create(model, device, {.memoryLimit = planned - 1});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(exitCode(refused.status()), ExitCode::Usage);
  EXPECT_NE(refused.status().message().find("activations"), absl::string_view::npos)
      << refused.status().ToString();
  EXPECT_EQ(device.log, "");
  EXPECT_TRUE(Session::create(model, device, {.memoryLimit = planned}).ok());
}

TEST(Session, LoadsTheDevicesImagesAndPreparesLazily) {
  Executable model = executable();
  testing::FakeDevice device;
  StatusOr<Session> session = Session::create(model, device);
  ASSERT_TRUE(session.ok()) << session.status().ToString();
  EXPECT_NE(device.log.find("load cpu:x86-64-v3 4\n"), std::string::npos);
  EXPECT_EQ(device.log.find("cuda"), std::string::npos);
  EXPECT_EQ(device.log.find("prepare"), std::string::npos);
  device.log.clear();
  ASSERT_TRUE(session->run("eval").ok());
  ASSERT_TRUE(session->run("eval").ok());
  EXPECT_EQ(device.log, "prepare 4\nrefresh\nexecute 4\nexecute 4\n");
}

TEST(Session, TakesTheFirstImageThatTheDeviceTakes) {
  struct Picky : testing::FakeDevice {
    std::string taken = "cpu:x86-64-v3";
    Status loadKernels(const KernelImage &image) override {
      SLUICE_RETURN_IF_ERROR(FakeDevice::loadKernels(image));
      return image.target == taken ? absl::OkStatus()
                                   : usageError("this host lacks a feature of ", image.target);
    }
  } device;
  ExecutableDescription description = testing::tinyModel();
  for (const char *target : {"cpu:x86-64-v4", "cpu:x86-64-v3", "cpu:x86-64-v1"})
    description.kernels.push_back({target, "code", "", {"k"}});
  Executable model = *parseExecutable(serializeExecutable(description), "tiny.slx");
  ASSERT_TRUE(Session::create(model, device).ok());
  EXPECT_NE(device.log.find("load cpu:x86-64-v4 4\nload cpu:x86-64-v3 4\n"), std::string::npos);
  EXPECT_EQ(device.log.find("x86-64-v1"), std::string::npos);
  device.taken = "none";
  EXPECT_EQ(exitCode(Session::create(model, device).status()), ExitCode::Usage);
}

TEST(Session, AsksTheDeviceForItsMemory) {
  struct Small : testing::FakeDevice {
    uint64_t availableMemory() const override { return 1024; }
  } device;
  Executable model = executable();
  EXPECT_EQ(exitCode(Session::create(model, device).status()), ExitCode::Usage);
  EXPECT_EQ(device.log, "");
}

TEST(Session, WritingAParameterRefreshesDerivedState) {
  Executable model = executable();
  testing::FakeDevice device;
  StatusOr<Session> session = Session::create(model, device);
  ASSERT_TRUE(session.ok());
  ASSERT_TRUE(session->run("eval").ok());
  std::string weights = *session->readState("head");
  weights[5] = 'x';
  ASSERT_TRUE(session->writeState("head", weights).ok());
  EXPECT_EQ(*session->readState("head"), weights);
  EXPECT_EQ(session->readState("embed")->find('x'), std::string::npos);
  device.log.clear();
  ASSERT_TRUE(session->run("eval").ok());
  EXPECT_EQ(device.log, "refresh\nexecute 4\n");
}

TEST(Session, ASequenceCopiesInRunsAndCopiesOut) {
  Executable model = executable();
  testing::FakeDevice device;
  StatusOr<Session> session = Session::create(model, device);
  ASSERT_TRUE(session.ok());
  const StatusOr<SequenceStep> steps[] = {session->copyIn<int32_t>("eval", "tokens", 16, 0),
                                          session->execution("eval"),
                                          session->copyOut("eval", "loss_sum", 64)};
  std::vector<SequenceStep> all;
  for (const StatusOr<SequenceStep> &step : steps) {
    ASSERT_TRUE(step.ok()) << step.status();
    all.push_back(*step);
  }
  EXPECT_FALSE(session->createSequence("a test", all, 67).ok()) << "four bytes at 64";
  auto sequence = session->createSequence("a test", all, 68);
  ASSERT_TRUE(sequence.ok()) << sequence.status();
  device.onExecute = [&](size_t) {
    int32_t token = 0;
    (void)all[0].memory->read(all[0].offset + 60, &token, 4);
    const float loss = static_cast<float>(token) / 2;
    (void)all[2].memory->write(all[2].offset, &loss, 4);
  };
  for (int32_t token : {3, 5}) {
    std::memcpy((*sequence)->room() + 60, &token, 4);
    device.log.clear();
    ASSERT_TRUE(session->writeState("head", *session->readState("head")).ok());
    ASSERT_TRUE(session->run(**sequence).ok());
    ASSERT_TRUE((*sequence)->wait().ok());
    EXPECT_EQ(device.log, "refresh\n") << "the host has written a parameter";
    float loss = 0;
    std::memcpy(&loss, (*sequence)->room() + 64, 4);
    EXPECT_EQ(loss, static_cast<float>(token) / 2);
  }
  for (const auto &bad :
       {session->copyIn<float>("eval", "tokens", 16, 0), session->copyIn<int32_t>("eval", "tokens", 15, 0),
        session->execution("evil"), session->copyOut("eval", "nothing", 0)})
    EXPECT_EQ(exitCode(bad.status()), ExitCode::Usage) << bad.status();
}

TEST(Session, NamesAndTypesAreChecked) {
  Executable model = executable();
  testing::FakeDevice device;
  StatusOr<Session> session = Session::create(model, device);
  ASSERT_TRUE(session.ok());
  std::vector<int32_t> tokens(16, 3), few(15, 3);
  std::vector<float> wrong(16, 3);
  EXPECT_TRUE(session->setInput<int32_t>("eval", "tokens", tokens).ok());
  for (const Status &status :
       {session->setInput<int32_t>("eval", "tokens", few), session->setInput<float>("eval", "tokens", wrong),
        session->setInput<int32_t>("eval", "token", tokens),
        session->setInput<int32_t>("evil", "tokens", tokens), session->run("evil"), session->prepare("evil"),
        session->readState("nothing").status(), session->writeState("head", "short"),
        session->scalarOutput("eval", "nothing").status()})
    EXPECT_EQ(exitCode(status), ExitCode::Usage) << status.ToString();
  EXPECT_NE(session->run("evil").message().find("accumulate"), absl::string_view::npos)
      << "names what there is";
}

TEST(MemoryPlan, Formats) {
  EXPECT_EQ(formatBytes(12), "12 B");
  EXPECT_EQ(formatBytes(1536), "1.50 KiB");
  EXPECT_EQ(formatBytes(uint64_t{3} << 30), "3.00 GiB");
  EXPECT_GT(availableHostMemory(), 0u);
  EXPECT_LT(availableHostMemory(), uint64_t{1} << 50);
}

} // namespace
} // namespace sluice
