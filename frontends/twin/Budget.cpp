#include "frontends/twin/Budget.h"

#include <cctype>
#include <cmath>
#include <cstdlib>

namespace sluice {

StatusOr<Count> parseLargeCount(std::string_view text, std::string_view what) {
  auto error = [&] {
    return usageError(what, ": expected a whole number such as 9.36e20, 2.15B or 300_000, found '", text,
                      "'");
  };
  constexpr Count limit = static_cast<unsigned __int128>(1) << 120;
  Count value = 0;
  int exponent = 0, digits = 0;
  bool fraction = false;
  size_t at = 0;
  for (; at < text.size(); ++at) {
    const char letter = text[at];
    if (std::isdigit(static_cast<unsigned char>(letter))) {
      if (value >= limit / 10)
        return error();
      value = value * 10 + static_cast<Count>(letter - '0');
      ++digits;
      exponent -= fraction ? 1 : 0;
    } else if (letter == '.' && !fraction && digits > 0) {
      fraction = true;
    } else if (!((letter == '_' || letter == ',') && digits > 0 && !fraction)) {
      break;
    }
  }
  if (digits == 0)
    return error();
  if (std::string_view rest = text.substr(at); rest.size() == 1) {
    constexpr std::string_view units = "kmbgt";
    constexpr int powers[] = {3, 6, 9, 9, 12};
    size_t unit = units.find(static_cast<char>(std::tolower(static_cast<unsigned char>(rest[0]))));
    if (unit == std::string_view::npos)
      return error();
    exponent += powers[unit];
  } else if (rest.size() > 1) {
    std::string number(rest.substr(1));
    char *end = nullptr;
    long power = std::strtol(number.c_str(), &end, 10);
    if ((rest[0] != 'e' && rest[0] != 'E') || *end != '\0' || power < -60 || power > 60)
      return error();
    exponent += static_cast<int>(power);
  }
  for (; exponent > 0; --exponent) {
    if (value >= limit / 10)
      return error();
    value *= 10;
  }
  for (; exponent < 0; ++exponent) {
    if (value % 10 != 0)
      return error();
    value /= 10;
  }
  return value;
}

StatusOr<double> parseShare(std::string_view text, std::string_view what) {
  std::string number(text);
  const bool percent = !number.empty() && number.back() == '%';
  if (percent)
    number.pop_back();
  char *end = nullptr;
  double value = std::strtod(number.c_str(), &end) / (percent ? 100 : 1);
  if (number.empty() || *end != '\0' || !(value >= 0 && value <= 1))
    return usageError(what, ": expected a share such as 0.1% or 0.001, found '", text, "'");
  return value;
}

TokenBudget tokensForCompute(Count compute, Count stepFlops, Count stepTokens) {
  TokenBudget budget;
  budget.steps = (compute + stepFlops / 2) / stepFlops;
  budget.steps = budget.steps == 0 ? 1 : budget.steps;
  budget.tokens = budget.steps * stepTokens;
  budget.flops = budget.steps * stepFlops;
  return budget;
}

} // namespace sluice
