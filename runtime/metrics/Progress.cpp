#include "runtime/metrics/Progress.h"

#include "absl/strings/str_format.h"

#include <array>
#include <cmath>
#include <cstdlib>
#include <string_view>
#include <sys/ioctl.h>
#include <unistd.h>

namespace sluice {
namespace {

int terminalWidth(std::FILE *out) {
  winsize size{};
  if (::ioctl(::fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
    return size.ws_col;
  return 80;
}

} // namespace

std::string formatDuration(double seconds) {
  // Written so that NaN also counts as unknown.
  if (!(seconds >= 0 && seconds < 1e9))
    return "?";
  const auto whole = static_cast<uint64_t>(std::llround(seconds));
  if (whole < 60)
    return absl::StrFormat("%ds", whole);
  if (whole < 3600)
    return absl::StrFormat("%dm%02ds", whole / 60, whole % 60);
  if (whole < 86400)
    return absl::StrFormat("%dh%02dm", whole / 3600, whole / 60 % 60);
  return absl::StrFormat("%dd%02dh", whole / 86400, whole / 3600 % 24);
}

std::string formatCount(double count) {
  if (!(count >= 0) || !std::isfinite(count))
    return "?";
  if (count < 999.5)
    return absl::StrFormat("%.0f", count);
  for (char unit : {'k', 'M', 'G'}) {
    count /= 1000;
    // The bounds are where three digits round up to the next form.
    if (count < 999.5 || unit == 'G')
      return absl::StrFormat("%.*f%c", count < 9.995 ? 2 : count < 99.95 ? 1 : 0, count, unit);
  }
  return "?";
}

std::string formatProgress(const ProgressState &state, int width) {
  std::string step = absl::StrFormat("step %d", state.step), percent;
  if (state.totalSteps > 0) {
    step += absl::StrFormat("/%d", state.totalSteps);
    // Rounded down: 100 % means done.
    percent = absl::StrFormat(" (%d%%)", static_cast<uint64_t>(100.0 * static_cast<double>(state.step) /
                                                               static_cast<double>(state.totalSteps)));
  }
  std::string loss = absl::StrFormat("  loss %.4f", state.loss);
  std::string speed = state.tokensPerSecond > 0 ? "  " + formatCount(state.tokensPerSecond) + " tok/s" : "";
  std::string left = std::isnan(state.secondsLeft) ? "" : "  " + formatDuration(state.secondsLeft) + " left";
  auto line = [&] { return step + percent + loss + speed + left; };
  if (width <= 0)
    return line();
  for (std::string *field : std::array{&percent, &speed, &left, &loss})
    if (line().size() > static_cast<size_t>(width))
      field->clear();
  return line().substr(0, static_cast<size_t>(width));
}

ProgressOptions detectProgressOptions(std::FILE *out, bool quiet) {
  ProgressOptions options;
  options.quiet = quiet;
  const char *term = std::getenv("TERM"), *noColor = std::getenv("NO_COLOR");
  options.terminal = ::isatty(::fileno(out)) && term && std::string_view(term) != "dumb";
  options.color = options.terminal && !(noColor && *noColor);
  return options;
}

void ProgressLine::draw(const std::string &text) {
  // Blanks cover what a longer line left; that works on terminals that know no escape sequences, too.
  const size_t rest = shown.size() > text.size() ? shown.size() - text.size() : 0;
  if (options.color && !text.empty())
    std::fprintf(out, "\r\033[36m%s\033[0m%*s", text.c_str(), static_cast<int>(rest), "");
  else
    std::fprintf(out, "\r%s%*s", text.c_str(), static_cast<int>(rest), "");
  if (text.empty())
    std::fputc('\r', out);
  std::fflush(out);
  shown = text;
}

void ProgressLine::update(const ProgressState &state) {
  if (options.quiet)
    return;
  if (!options.terminal) {
    std::fprintf(out, "%s\n", formatProgress(state).c_str());
    std::fflush(out);
    return;
  }
  // The last column stays free: a character there makes some terminals wrap.
  const int width = options.width > 0 ? options.width : terminalWidth(out);
  draw(formatProgress(state, width > 1 ? width - 1 : 1));
}

void ProgressLine::note(std::string_view text) {
  if (options.quiet)
    return;
  const std::string line = shown;
  if (!line.empty())
    draw("");
  std::fprintf(out, "%.*s\n", static_cast<int>(text.size()), text.data());
  if (!line.empty())
    draw(line);
  std::fflush(out);
}

void ProgressLine::finish() {
  if (shown.empty())
    return;
  std::fputc('\n', out);
  std::fflush(out);
  shown.clear();
}

} // namespace sluice
