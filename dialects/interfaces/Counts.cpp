#include "dialects/interfaces/Counts.h"

#include <algorithm>
#include <ostream>

namespace sluice {

std::string toDecimal(Count count) {
  if (count.isOverflow())
    return "overflow";
  if (count == 0)
    return "0";
  std::string digits;
  for (; count != 0; count /= 10)
    digits.push_back(static_cast<char>('0' + static_cast<int>(count % 10)));
  std::reverse(digits.begin(), digits.end());
  return digits;
}

Count fromDecimal(const std::string &digits) {
  Count count = digits.empty() ? Count::overflow() : Count(0);
  for (char digit : digits)
    count = digit >= '0' && digit <= '9' ? 10 * count + (digit - '0') : Count::overflow();
  return count;
}

std::ostream &operator<<(std::ostream &stream, Count count) {
  return stream << toDecimal(count);
}

} // namespace sluice
