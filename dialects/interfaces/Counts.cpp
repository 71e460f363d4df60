#include "dialects/interfaces/Counts.h"

#include <algorithm>

namespace sluice {

std::string toDecimal(Count count) {
  if (count == 0)
    return "0";
  std::string digits;
  for (; count != 0; count /= 10)
    digits.push_back(static_cast<char>('0' + static_cast<int>(count % 10)));
  std::reverse(digits.begin(), digits.end());
  return digits;
}

} // namespace sluice
