// The progress line on terminals and elsewhere, and the numbers in it.
#include "runtime/metrics/Progress.h"
#include "runtime/metrics/Speed.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fcntl.h>
#include <functional>
#include <unistd.h>

using namespace sluice;

namespace {

ProgressState state(uint64_t step) {
  return {step, 1000, 3.21449, 2100, 192};
}

std::string printed(ProgressOptions options, const std::function<void(ProgressLine &)> &use) {
  std::FILE *file = std::tmpfile();
  {
    ProgressLine line(file, options);
    use(line);
  }
  std::rewind(file);
  std::string text;
  for (int c; (c = std::fgetc(file)) != EOF;)
    text.push_back(static_cast<char>(c));
  std::fclose(file);
  return text;
}

TEST(Progress, Durations) {
  const std::pair<double, const char *> cases[] = {
      {0, "0s"},       {59.4, "59s"},     {59.6, "1m00s"}, {192, "3m12s"}, {3599, "59m59s"},
      {7500, "2h05m"}, {273600, "3d04h"}, {NAN, "?"},      {-1, "?"},      {INFINITY, "?"}};
  for (auto [seconds, text] : cases)
    EXPECT_EQ(formatDuration(seconds), text);
}

TEST(Progress, Counts) {
  const std::pair<double, const char *> cases[] = {{0, "0"},          {950, "950"},       {999.6, "1.00k"},
                                                   {2100, "2.10k"},   {12345, "12.3k"},   {99960, "100k"},
                                                   {999600, "1.00M"}, {1.234e6, "1.23M"}, {4.56e9, "4.56G"},
                                                   {1e13, "10000G"},  {NAN, "?"}};
  for (auto [count, text] : cases)
    EXPECT_EQ(formatCount(count), text);
}

TEST(Progress, FieldsGoWhereTheRoomIsShort) {
  const std::string full = "step 120/1000 (12%)  loss 3.2145  2.10k tok/s  3m12s left";
  EXPECT_EQ(formatProgress(state(120)), full);
  EXPECT_EQ(formatProgress(state(120), static_cast<int>(full.size())), full);
  EXPECT_EQ(formatProgress(state(120), static_cast<int>(full.size()) - 1),
            "step 120/1000  loss 3.2145  2.10k tok/s  3m12s left");
  EXPECT_EQ(formatProgress(state(120), 40), "step 120/1000  loss 3.2145  3m12s left");
  EXPECT_EQ(formatProgress(state(120), 30), "step 120/1000  loss 3.2145");
  EXPECT_EQ(formatProgress(state(120), 20), "step 120/1000");
  for (int width = 1; width < 80; ++width)
    EXPECT_LE(formatProgress(state(120), width).size(), static_cast<size_t>(width));
}

TEST(Progress, WhatIsNotKnownIsLeftOut) {
  EXPECT_EQ(formatProgress({7, 0, 2.5, 0}), "step 7  loss 2.5000");
  EXPECT_EQ(formatProgress({999, 1000, 2.5, 0}), "step 999/1000 (99%)  loss 2.5000");
}

TEST(Progress, PlainLinesWithoutATerminal) {
  std::string text = printed({}, [](ProgressLine &line) {
    line.update(state(1));
    line.note("saved");
    line.update(state(2));
  });
  EXPECT_EQ(text, formatProgress(state(1)) + "\nsaved\n" + formatProgress(state(2)) + "\n");
  EXPECT_EQ(text.find('\r'), std::string::npos);
}

TEST(Progress, OneRenewingLineOnATerminal) {
  ProgressOptions options;
  options.terminal = true;
  options.width = 60;
  const std::string first = "step 9  loss 2.5000", longer = "step 10  loss 2.5000";
  std::string text = printed(options, [](ProgressLine &line) {
    line.update({10, 0, 2.5, 0});
    line.update({9, 0, 2.5, 0});
    line.note("saved");
  });
  EXPECT_EQ(text, "\r" + longer + "\r" + first + " " + "\r" + std::string(first.size(), ' ') + "\rsaved\n\r" +
                      first + "\n");
}

TEST(Progress, NeverAsWideAsTheTerminal) {
  ProgressOptions options;
  options.terminal = true;
  options.width = 14;
  EXPECT_EQ(printed(options, [](ProgressLine &line) { line.update(state(120)); }), "\rstep 120/1000\n");
}

TEST(Progress, ColorIsOptional) {
  ProgressOptions options;
  options.terminal = options.color = true;
  options.width = 60;
  std::string text = printed(options, [](ProgressLine &line) { line.update({9, 0, 2.5, 0}); });
  EXPECT_EQ(text, "\r\033[36mstep 9  loss 2.5000\033[0m\n");
}

TEST(Progress, QuietPrintsNothing) {
  for (bool terminal : {false, true}) {
    ProgressOptions options;
    options.quiet = true;
    options.terminal = terminal;
    EXPECT_EQ(printed(options,
                      [](ProgressLine &line) {
                        line.update(state(1));
                        line.note("saved");
                      }),
              "");
  }
}

TEST(Progress, DetectsTerminalsAndNoColor) {
  std::FILE *file = std::tmpfile();
  EXPECT_FALSE(detectProgressOptions(file).terminal);
  EXPECT_FALSE(detectProgressOptions(file).color);
  std::fclose(file);

  int master = ::posix_openpt(O_RDWR | O_NOCTTY);
  if (master < 0 || ::grantpt(master) != 0 || ::unlockpt(master) != 0)
    GTEST_SKIP() << "this machine has no pseudo terminals";
  std::FILE *terminal = std::fopen(::ptsname(master), "w");
  ASSERT_NE(terminal, nullptr);
  ::setenv("TERM", "xterm", 1);
  ::unsetenv("NO_COLOR");
  EXPECT_TRUE(detectProgressOptions(terminal).terminal);
  EXPECT_TRUE(detectProgressOptions(terminal).color);
  ::setenv("NO_COLOR", "1", 1);
  EXPECT_TRUE(detectProgressOptions(terminal).terminal);
  EXPECT_FALSE(detectProgressOptions(terminal).color);
  ::setenv("TERM", "dumb", 1);
  EXPECT_FALSE(detectProgressOptions(terminal).terminal);
  std::fclose(terminal);
  ::close(master);
}

TEST(Speed, FirstStepIsLeftOutAndSteadySpeedIsExact) {
  SpeedMeter meter;
  EXPECT_EQ(meter.tokensPerSecond(), 0);
  EXPECT_TRUE(std::isnan(meter.secondsFor(10)));
  meter.addStep(100, 50);
  EXPECT_EQ(meter.tokensPerSecond(), 0);
  for (int i = 0; i < 5; ++i)
    meter.addStep(100, 0.5);
  EXPECT_DOUBLE_EQ(meter.tokensPerSecond(), 200);
  EXPECT_DOUBLE_EQ(meter.secondsFor(1000), 5);
}

TEST(Speed, RecentStepsWeighMore) {
  SpeedMeter meter(0.5);
  meter.addStep(1, 1);
  meter.addStep(100, 1);
  meter.addStep(300, 1);
  EXPECT_DOUBLE_EQ(meter.tokensPerSecond(), (0.5 * 100 + 300) / 1.5);
}

} // namespace
