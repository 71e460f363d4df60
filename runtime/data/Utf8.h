// UTF-8: strict validation and counting of code points.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace sluice {

/// Length in bytes of the well-formed UTF-8 sequence at the start of `text` (1 to 4), or 0 if there is none.
/// Well-formed as in Unicode 15, table 3-7: no overlong forms, no surrogates, nothing above U+10FFFF.
int utf8SequenceLength(std::string_view text);

/// Byte offset of the first ill-formed sequence, or text.size() when all of `text` is valid UTF-8.
size_t utf8FirstError(std::string_view text);

/// True for 10xxxxxx: a byte that continues a character and does not start one.
inline bool isUtf8Continuation(char byte) {
  return (static_cast<uint8_t>(byte) & 0xC0) == 0x80;
}

/// Number of code points in valid UTF-8: the bytes that are not continuation bytes.
uint64_t utf8Characters(std::string_view text);

/// The text with U+FFFD in place of each byte that is not part of a well-formed sequence: what a model says
/// may end in the middle of a character, a report for people must not.
std::string utf8Readable(std::string_view text);

} // namespace sluice
