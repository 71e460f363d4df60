#include "dialects/ledger/Ledger.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringRef.h"

#include <algorithm>
#include <set>

namespace sluice {
namespace {

constexpr size_t labelWidth = 34, numberWidth = 20, shortWidth = 12;

std::string left(std::string text, size_t width) {
  if (text.size() > width)
    text = text.substr(0, width - 2) + "..";
  return text + std::string(width - text.size(), ' ');
}
std::string right(const std::string &text, size_t width) {
  return std::string(text.size() < width ? width - text.size() : 0, ' ') + text;
}

/// `layers.3.attn` becomes `layers.*.attn`: equal layers share a line.
std::string withoutNumbers(llvm::StringRef path) {
  llvm::SmallVector<llvm::StringRef> parts;
  path.split(parts, '.', -1, false);
  for (llvm::StringRef &part : parts)
    if (llvm::all_of(part, llvm::isDigit))
      part = "*";
  return llvm::join(parts, ".");
}

/// What one line of the tree shows, summed over layers.
struct Line {
  Count parameters = 0, forward = 0, backward = 0, other = 0;
  Line &operator+=(const Line &line) {
    parameters += line.parameters, forward += line.forward, backward += line.backward, other += line.other;
    return *this;
  }
};

/// Everything that is not a contraction and no index work.
Count elementwise(const ClassCounts &counts) {
  return counts.add + counts.multiply + counts.divide + counts.transcendental + counts.compare;
}

/// Lines by path, every module including what is inside of it.
std::map<std::string, Line> linesOf(const Ledger &ledger, std::vector<std::string> &order) {
  std::map<std::string, Line> own;
  auto lineOf = [&](const std::string &path) -> Line & {
    std::string name = withoutNumbers(path);
    if (own.find(name) == own.end())
      order.push_back(name);
    return own[name];
  };
  for (const LedgerRow &row : ledger.rows) {
    if (row.graph != ledger.trainingGraph)
      continue;
    Line &line = lineOf(row.path);
    line.other += elementwise(row.counts.ideal);
    (row.direction == "backward" ? line.backward : line.forward) +=
        row.direction == "recompute" ? 0 : row.counts.ideal.contraction;
  }
  for (const auto &[path, count] : ledger.parameters.byPath)
    lineOf(path).parameters += count;
  std::map<std::string, Line> lines;
  std::vector<std::string> all;
  for (const std::string &path : order) {
    llvm::SmallVector<llvm::StringRef> parts;
    llvm::StringRef(path).split(parts, '.', -1, false);
    for (size_t depth = parts.empty() ? 0 : 1; depth <= parts.size(); ++depth) {
      std::string prefix = llvm::join(parts.begin(), parts.begin() + depth, ".");
      if (lines.find(prefix) == lines.end())
        all.push_back(prefix);
      lines[prefix] += own[path];
    }
  }
  order = std::move(all);
  return lines;
}

std::string totalLine(const std::string &label, Count exact) {
  return "  " + left(label, labelWidth) + right(groupedDigits(exact), 28) +
         right(withUnit(exact), shortWidth) + "\n";
}

} // namespace

std::string groupedDigits(Count count) {
  std::string digits = toDecimal(count);
  for (int64_t at = static_cast<int64_t>(digits.size()) - 3; at > 0; at -= 3)
    digits.insert(static_cast<size_t>(at), ",");
  return digits;
}

std::string withUnit(Count count) {
  static constexpr llvm::StringLiteral prefixes[] = {"", " k", " M", " G", " T", " P", " E", " Z", " Y"};
  size_t prefix = 0;
  auto value = static_cast<double>(count);
  while (value >= 999.95 && prefix + 1 < std::size(prefixes)) {
    value /= 1000;
    ++prefix;
  }
  if (prefix == 0)
    return toDecimal(count);
  return absl::StrFormat("%.*f", value < 10 ? 3 : value < 100 ? 2 : 1, value) + prefixes[prefix].str();
}

std::string ledgerText(const Ledger &ledger) {
  const ParameterCounts &parameters = ledger.parameters;
  std::string text;
  // The convention, wrapped at its bars.
  std::string line;
  llvm::SmallVector<llvm::StringRef> parts;
  llvm::StringRef(ledgerConvention).split(parts, " | ");
  for (llvm::StringRef part : parts) {
    if (!line.empty() && line.size() + part.size() + 3 > 98) {
      text += line + "\n";
      line.clear();
    }
    line += (line.empty() ? "" : " | ") + part.str();
  }
  text += line + "\n\nparameters\n";
  text += totalLine("total", parameters.total);
  text += totalLine("active", parameters.active);
  text += totalLine("active without input table", parameters.activeWithoutInputTable);
  text += totalLine("active without tables", parameters.activeNonEmbedding);
  text += totalLine("nonzero", parameters.nonzero);

  text += "\nFLOPs of one micro-batch (contractions)\n";
  text += totalLine("forward", ledger.forward().counts.ideal.contraction);
  text += totalLine("  attention in full", ledger.forward().fullAttention.contraction);
  text += totalLine("  dense, all experts", ledger.forward().counts.dense.contraction);
  if (ledger.hasBackward) {
    text += totalLine("backward", ledger.backward().counts.ideal.contraction);
    text += totalLine("training", ledger.training().counts.ideal.contraction);
    text += totalLine("  attention in full", ledger.training().fullAttention.contraction);
    text += totalLine("  dense, all experts", ledger.training().counts.dense.contraction);
    text += totalLine("recompute (apart)", ledger.recompute().counts.ideal.contraction);
    text += totalLine("optimizer (elementwise, a step)", elementwise(ledger.optimizer().counts.ideal));
  }

  text += "\n" + left("module (layers summed)", labelWidth + 2) + right("parameters", numberWidth) +
          right("forward", shortWidth) + right("backward", shortWidth) +
          right("other FLOPs", shortWidth + 2) + "\n";
  std::vector<std::string> order;
  std::map<std::string, Line> lines = linesOf(ledger, order);
  // Depth first, children in order of first appearance.
  std::set<std::string> shown;
  std::function<void(const std::string &, size_t)> show = [&](const std::string &path, size_t depth) {
    if (!shown.insert(path).second)
      return;
    const Line &values = lines[path];
    size_t dot = path.rfind('.');
    std::string label = path.empty()               ? "(outside of modules)"
                        : dot == std::string::npos ? path
                                                   : path.substr(dot + 1);
    text += left(std::string(2 * depth, ' ') + label, labelWidth + 2) +
            right(groupedDigits(values.parameters), numberWidth) +
            right(withUnit(values.forward), shortWidth) + right(withUnit(values.backward), shortWidth) +
            right(withUnit(values.other), shortWidth + 2) + "\n";
    for (const std::string &other : order)
      if (!path.empty() && llvm::StringRef(other).starts_with(path + ".") &&
          other.find('.', path.size() + 1) == std::string::npos)
        show(other, depth + 1);
  };
  for (const std::string &path : order)
    if (path.find('.') == std::string::npos)
      show(path, 0);
  return text;
}

} // namespace sluice
