#include "runtime/train/Count.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <utility>

namespace sluice {

StatusOr<int64_t> parseCount(std::string_view text, std::string_view what) {
  auto error = [&] {
    return usageError(what, ": expected a whole number such as 250_000, 1e6, 2M or 1.5B, found '", text, "'");
  };
  std::string digits;
  size_t position = 0;
  bool previousDigit = false;
  for (; position < text.size(); ++position) {
    char c = text[position];
    bool separator = (c == '_' || c == ',') && previousDigit && position + 1 < text.size() &&
                     std::isdigit(static_cast<unsigned char>(text[position + 1]));
    bool exponentSign =
        (c == '+' || c == '-') && !digits.empty() && (digits.back() == 'e' || digits.back() == 'E');
    previousDigit = std::isdigit(static_cast<unsigned char>(c));
    if (separator)
      continue;
    bool exponent = (c == 'e' || c == 'E') && !digits.empty();
    if (!previousDigit && c != '.' && !exponent && !exponentSign)
      break;
    digits += c;
  }
  double unit = 1;
  if (position + 1 == text.size()) {
    switch (text[position]) {
    case 'k':
    case 'K':
      unit = 1e3;
      break;
    case 'm':
    case 'M':
      unit = 1e6;
      break;
    case 'b':
    case 'B':
    case 'g':
    case 'G':
      unit = 1e9;
      break;
    case 't':
    case 'T':
      unit = 1e12;
      break;
    default:
      return error();
    }
  } else if (position != text.size()) {
    return error();
  }
  if (digits.empty() || digits[0] == '.')
    return error();
  char *end = nullptr;
  double value = std::strtod(digits.c_str(), &end) * unit;
  if (*end != '\0' || !(value <= 0x1p53))
    return error();
  // 1.1M is 1100000 although 1.1 * 1e6 need not be exact in binary.
  double rounded = std::round(value);
  if (std::abs(value - rounded) > 1e-6)
    return error();
  return static_cast<int64_t>(rounded);
}

std::string nearestName(std::string_view name, const std::vector<std::string> &candidates) {
  std::string best;
  size_t bestDistance = std::max<size_t>(2, name.size() / 3) + 1;
  for (const std::string &candidate : candidates) {
    // Optimal string alignment: insertions, deletions, substitutions, and swapped neighbours as one slip.
    std::vector<size_t> row(candidate.size() + 1), above, twoAbove;
    std::iota(row.begin(), row.end(), size_t{0});
    for (size_t i = 1; i <= name.size(); ++i) {
      twoAbove = std::exchange(above, row);
      row[0] = i;
      for (size_t j = 1; j <= candidate.size(); ++j) {
        row[j] = std::min({above[j - 1] + (name[i - 1] != candidate[j - 1]), above[j] + 1, row[j - 1] + 1});
        if (i > 1 && j > 1 && name[i - 1] == candidate[j - 2] && name[i - 2] == candidate[j - 1])
          row[j] = std::min(row[j], twoAbove[j - 2] + 1);
      }
    }
    if (row.back() < bestDistance) {
      bestDistance = row.back();
      best = candidate;
    }
  }
  return best;
}

} // namespace sluice
