// What a person sees while a run goes on: one line that renews itself on a terminal, plain lines elsewhere.
#pragma once

#include <cstdint>
#include <cstdio>
#include <limits>
#include <string>
#include <string_view>

namespace sluice {

struct ProgressState {
  uint64_t step = 0, totalSteps = 0;
  double loss = std::numeric_limits<double>::quiet_NaN(); // nats per token
  double tokensPerSecond = 0;                             // 0: not known yet
  double secondsLeft = std::numeric_limits<double>::quiet_NaN();
};

/// "step 120/1000 (12%)  loss 3.2145  2.10k tok/s  3m12s left" in at most `width` columns (0: no limit).
/// Where the room is short, the percentage goes first, then the speed, the time left, the loss.
std::string formatProgress(const ProgressState &state, int width = 0);
/// Seconds as "45s", "3m12s", "2h05m", "3d04h"; "?" when not known.
std::string formatDuration(double seconds);
/// A number of at least 0 with three digits: "950", "2.10k", "12.3k", "1.23M", "4.56G".
std::string formatCount(double count);

struct ProgressOptions {
  bool terminal = false; // renew one line instead of adding lines
  bool color = false;
  bool quiet = false; // print nothing
  int width = 0;      // columns; 0: ask the terminal at each line (80 when it does not say)
};

/// What suits `out`: a renewing line on a terminal that can (TERM is not "dumb"), colour unless NO_COLOR is
/// set and not empty (no-color.org).
ProgressOptions detectProgressOptions(std::FILE *out, bool quiet = false);

/// Prints to `out`, which it neither owns nor closes. Not thread safe.
class ProgressLine {
public:
  ProgressLine(std::FILE *out, ProgressOptions options) : out(out), options(options) {}
  ~ProgressLine() { finish(); }
  ProgressLine(const ProgressLine &) = delete;
  ProgressLine &operator=(const ProgressLine &) = delete;

  /// On a terminal renews the line; elsewhere prints one line, so there it is called at log intervals only.
  void update(const ProgressState &state);
  /// A line that stays (an evaluation, a saved checkpoint), above the renewing one.
  void note(std::string_view text);
  /// Ends the renewing line, so that other output starts on a fresh one.
  void finish();

private:
  void draw(const std::string &text);

  std::FILE *out;
  ProgressOptions options;
  std::string shown; // the renewing line as it stands, empty when there is none
};

} // namespace sluice
