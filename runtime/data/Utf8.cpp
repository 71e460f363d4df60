#include "runtime/data/Utf8.h"

namespace sluice {

int utf8SequenceLength(std::string_view text) {
  if (text.empty())
    return 0;
  auto byte = [&](size_t at) { return static_cast<uint8_t>(text[at]); };
  uint8_t lead = byte(0);
  if (lead < 0x80)
    return 1;
  if (lead < 0xC2 || lead > 0xF4)
    return 0;
  size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  if (text.size() < length)
    return 0;
  // Only the second byte has a range of its own: it excludes overlong forms, surrogates and beyond U+10FFFF.
  uint8_t low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  uint8_t high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  if (byte(1) < low || byte(1) > high)
    return 0;
  for (size_t at = 2; at < length; ++at)
    if (!isUtf8Continuation(text[at]))
      return 0;
  return static_cast<int>(length);
}

size_t utf8FirstError(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    int length = utf8SequenceLength(text.substr(at, 4));
    if (length == 0)
      return at;
    at += static_cast<size_t>(length);
  }
  return at;
}

std::string utf8Readable(std::string_view text) {
  std::string readable;
  for (size_t error = utf8FirstError(text);; error = utf8FirstError(text)) {
    readable += text.substr(0, error);
    if (error == text.size())
      return readable;
    readable += "\xEF\xBF\xBD";
    text.remove_prefix(error + 1);
  }
}

uint64_t utf8Characters(std::string_view text) {
  uint64_t count = 0;
  for (char byte : text)
    count += !isUtf8Continuation(byte);
  return count;
}

} // namespace sluice
