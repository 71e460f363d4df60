// How reports write numbers and columns.
#pragma once

#include "dialects/interfaces/Counts.h"

#include <string>

namespace sluice {

/// `text` on the left or right of a column; what is too long on the left ends in "..".
std::string leftColumn(std::string text, size_t width);
std::string rightColumn(const std::string &text, size_t width);
/// `12.62B`: parameters and tokens, four digits, K, M, B, T.
std::string shortCount(Count count);
/// `61.55G`: withUnit without a space, so that the unit of the column (FLOP, B) can stand in its head.
std::string shortUnit(Count count);
/// `12,617,781,248 12.62B` where `width` allows both, else the exact number, else the short one.
std::string bothForms(Count count, const std::string &shortForm, size_t width);
/// ` 92.1%`, five or six columns; "-" of nothing.
std::string percent(Count part, Count whole);
/// A bar of `width` columns, in eighths of a column.
std::string percentBar(Count part, Count whole, size_t width);
/// `1.23 ms`: seconds with a prefix, three digits.
std::string secondsText(double seconds);
/// Columns of `text` in a terminal: UTF-8 sequences count one.
size_t columnsOf(const std::string &text);

} // namespace sluice
