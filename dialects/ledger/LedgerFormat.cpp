#include "dialects/ledger/LedgerFormat.h"

#include "dialects/ledger/Ledger.h"

#include "absl/strings/str_format.h"
#include "llvm/ADT/StringRef.h"

#include <cmath>

namespace sluice {
namespace {

/// Four digits and the prefix of a power of 1000.
std::string shortened(Count count, llvm::ArrayRef<llvm::StringLiteral> prefixes) {
  size_t prefix = 0;
  auto value = static_cast<double>(count);
  // 999.95 would be written as 1000.
  while (value >= 999.95 && prefix + 1 < prefixes.size()) {
    value /= 1000;
    ++prefix;
  }
  if (prefix == 0)
    return toDecimal(count);
  return absl::StrFormat("%.*f", value < 10 ? 3 : value < 100 ? 2 : 1, value) + prefixes[prefix].str();
}

} // namespace

std::string leftColumn(std::string text, size_t width) {
  if (text.size() > width)
    text = text.substr(0, width - 2) + "..";
  return text + std::string(width - text.size(), ' ');
}

std::string rightColumn(const std::string &text, size_t width) {
  return std::string(text.size() < width ? width - text.size() : 0, ' ') + text;
}

std::string groupedDigits(Count count) {
  std::string digits = toDecimal(count);
  if (count.isOverflow())
    return digits;
  for (int64_t at = static_cast<int64_t>(digits.size()) - 3; at > 0; at -= 3)
    digits.insert(static_cast<size_t>(at), ",");
  return digits;
}

std::string withUnit(Count count) {
  static constexpr llvm::StringLiteral prefixes[] = {"", " k", " M", " G", " T", " P", " E", " Z", " Y"};
  return shortened(count, prefixes);
}

std::string shortUnit(Count count) {
  static constexpr llvm::StringLiteral prefixes[] = {"", "k", "M", "G", "T", "P", "E", "Z", "Y"};
  return shortened(count, prefixes);
}

std::string shortCount(Count count) {
  static constexpr llvm::StringLiteral prefixes[] = {"", "K", "M", "B", "T"};
  return shortened(count, prefixes);
}

std::string bothForms(Count count, const std::string &shortForm, size_t width) {
  const std::string exact = groupedDigits(count);
  if (exact == shortForm)
    return rightColumn(exact, width);
  if (exact.size() + 1 + shortForm.size() < width)
    return rightColumn(exact + " " + shortForm, width);
  return rightColumn(exact.size() < width ? exact : shortForm, width);
}

std::string percent(Count part, Count whole) {
  if (whole == 0)
    return "-";
  return absl::StrFormat("%.1f%%", 100 * static_cast<double>(part) / static_cast<double>(whole));
}

std::string percentBar(Count part, Count whole, size_t width) {
  static constexpr llvm::StringLiteral eighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  if (whole == 0)
    return std::string(width, ' ');
  const double share = static_cast<double>(part) / static_cast<double>(whole);
  const auto steps = static_cast<size_t>(std::lround(share * 8 * static_cast<double>(width)));
  std::string bar;
  for (size_t i = 0; i < steps / 8; ++i)
    bar += "█";
  bar += eighths[steps % 8].str();
  return bar + std::string(width - steps / 8 - (steps % 8 != 0), ' ');
}

std::string secondsText(double seconds) {
  for (auto [factor, unit] :
       {std::pair{1e9, "ns"}, std::pair{1e6, "us"}, std::pair{1e3, "ms"}, std::pair{1.0, "s"}})
    if (seconds * factor < 999.5 || factor == 1.0)
      return absl::StrFormat("%.3g %s", seconds * factor, unit);
  return "";
}

size_t columnsOf(const std::string &text) {
  size_t columns = 0;
  for (char byte : text)
    columns += (static_cast<unsigned char>(byte) & 0xC0) != 0x80;
  return columns;
}

} // namespace sluice
