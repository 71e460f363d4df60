#include "frontends/cli/MasksPlot.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>

namespace sluice::cli {
namespace {

constexpr double width = 960, margin = 24, labels = 128, gap = 20;

std::string escaped(const std::string &text) {
  return absl::StrReplaceAll(text, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}});
}

std::string textAt(double x, double y, const std::string &text, const char *style = "") {
  return absl::StrFormat("<text x=\"%.1f\" y=\"%.1f\" %s>%s</text>\n", x, y, style, escaped(text));
}

/// A colour between light and dark for 0 to 1.
struct Scale {
  std::array<int, 3> light, dark;

  std::string colour(double share) const {
    share = std::clamp(share, 0.0, 1.0);
    auto mix = [&](size_t k) {
      return static_cast<int>(std::lround(light[k] + (dark[k] - light[k]) * share));
    };
    return absl::StrFormat("#%02x%02x%02x", mix(0), mix(1), mix(2));
  }
};
constexpr Scale blue{{232, 241, 250}, {16, 62, 120}}, orange{{253, 240, 224}, {184, 70, 10}},
    green{{230, 244, 234}, {18, 96, 66}};

/// The layers of a report as a table: a row for each kind of matrix, a column for each layer number.
struct Table {
  std::vector<std::string> kinds;
  std::map<std::pair<size_t, int64_t>, const MaskLayer *> cells; // by kind and column
  int64_t columns = 0;

  explicit Table(const MaskReport &report) {
    for (const MaskLayer &layer : report.layers) {
      // "layers.3.attn.wq" is column 3 of "attn.wq".
      std::string kind;
      int64_t column = -1;
      for (size_t start = 0; start <= layer.name.size();) {
        const size_t end = std::min(layer.name.find('.', start), layer.name.size());
        const std::string part = layer.name.substr(start, end - start);
        const bool number = !part.empty() && std::all_of(part.begin(), part.end(),
                                                         [](char c) { return c >= '0' && c <= '9'; });
        if (number && column < 0 && part.size() < 9)
          column = std::stoll(part), kind.clear(); // what stands before the number says "layers"
        else
          absl::StrAppend(&kind, kind.empty() ? "" : ".", part);
        start = end + 1;
      }
      column = std::max<int64_t>(column, 0);
      auto found = std::find(kinds.begin(), kinds.end(), kind);
      const auto row = static_cast<size_t>(found - kinds.begin());
      if (found == kinds.end())
        kinds.push_back(kind);
      cells[{row, column}] = &layer;
      columns = std::max(columns, column + 1);
    }
  }
};

struct Map {
  const char *title;
  Scale scale;
  double most; // the value of the darkest colour
  std::function<double(const MaskLayer &)> value;
  std::function<double(const MaskCounts &)> ofExpert; // may be null
  std::function<std::string(double)> label;
};

/// Cells of one map from `left` to `left + across`; each expert has a strip of its own where the value is
/// known by expert. Names of rows end before `left`, where `named`.
std::string drawMap(const Table &table, const Map &map, double left, double top, double across, bool named) {
  std::string out = textAt(left, top - 22, map.title, "class=\"h\"");
  const double cell = std::min(56.0, across / static_cast<double>(std::max<int64_t>(table.columns, 1))),
               high = 24;
  for (int64_t column = 0; column < table.columns; ++column)
    if (cell >= 18 || column % 4 == 0)
      out += textAt(left + cell * (static_cast<double>(column) + 0.5), top - 5, absl::StrCat(column),
                    "class=\"s\" text-anchor=\"middle\"");
  for (size_t row = 0; named && row < table.kinds.size(); ++row)
    out += textAt(left - 8, top + high * (static_cast<double>(row) + 0.65), table.kinds[row],
                  "class=\"l\" text-anchor=\"end\"");
  for (const auto &[place, layer] : table.cells) {
    const double x = left + cell * static_cast<double>(place.second),
                 y = top + high * static_cast<double>(place.first), value = map.value(*layer);
    const size_t strips = map.ofExpert ? std::max<size_t>(layer->experts.size(), 1) : 1;
    for (size_t k = 0; k < strips; ++k) {
      const double own = strips == 1 ? value : map.ofExpert(layer->experts[k]);
      out += absl::StrFormat("<rect x=\"%.1f\" y=\"%.1f\" width=\"%.2f\" height=\"%.1f\" fill=\"%s\"/>\n",
                             x + static_cast<double>(k) * (cell - 1.5) / static_cast<double>(strips), y,
                             (cell - 1.5) / static_cast<double>(strips), high - 1.5,
                             map.scale.colour(map.most > 0 ? own / map.most : 0));
    }
    if (cell >= 27)
      out += textAt(x + cell / 2 - 0.75, y + high * 0.64, map.label(value),
                    map.most > 0 && value / map.most > 0.55 ? "class=\"c\" fill=\"#fff\""
                                                            : "class=\"c\" fill=\"#223\"");
  }
  return out;
}

/// "368,640".
std::string grouped(int64_t number) {
  std::string digits = absl::StrCat(number);
  for (auto at = static_cast<std::ptrdiff_t>(digits.size()) - 3; at > 0; at -= 3)
    digits.insert(static_cast<size_t>(at), ",");
  return digits;
}

std::string percent(double share) {
  return share < 0.0995 ? absl::StrFormat("%.1f", 100 * share) : absl::StrFormat("%.0f", 100 * share);
}

/// Share of kept weights that each update replaced: all layers together, and each kind of matrix.
std::string drawChurn(const MaskReport &report, const Table &table, double top, double high) {
  static constexpr std::array palette = {"#1b6ca8", "#d1495b", "#2a9d8f", "#e9a03b",
                                         "#6d597a", "#4f772d", "#8d5524"};
  const double left = margin + 56, right = width - margin - 150, bottom = top + high;
  const bool gradual = report.method == "gradual";
  auto churn = [&](const MaskChange::Layer &layer) {
    const int64_t moved = gradual ? layer.dropped : layer.grown,
                  of = gradual ? layer.kept + layer.dropped : layer.kept;
    return of > 0 ? static_cast<double>(moved) / static_cast<double>(of) : 0.0;
  };
  std::string out = textAt(margin, top - 14,
                           gradual ? "Share of kept weights that an update removed"
                                   : "Churn: share of kept weights that an update replaced",
                           "class=\"h\"");
  double most = 1e-6;
  for (const MaskChange &update : report.updates) {
    for (const MaskChange::Layer &layer : update.layers)
      most = std::max(most, churn(layer));
    if (!gradual)
      most = std::max(most, update.share);
  }
  // Four intervals of a round number of percent.
  double interval = std::pow(10.0, std::floor(std::log10(most / 4)));
  for (double factor : {1.0, 2.0, 2.5, 5.0, 10.0})
    if (4 * interval * factor >= most) {
      interval *= factor;
      break;
    }
  most = 4 * interval;
  const auto last = static_cast<double>(report.updates.back().step);
  auto x = [&](int64_t step) { return left + (right - left) * static_cast<double>(step) / last; };
  auto y = [&](double share) { return bottom - high * share / most; };
  for (int tick = 0; tick <= 4; ++tick) {
    const double share = most * tick / 4;
    out += absl::StrFormat("<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#e3e6ea\"/>\n",
                           left, right, y(share), y(share));
    out += textAt(left - 8, y(share) + 4, absl::StrFormat("%.4g %%", 100 * share),
                  "class=\"s\" text-anchor=\"end\"");
    const auto step = static_cast<int64_t>(last * tick / 4);
    out += textAt(x(step), bottom + 16, absl::StrCat(step), "class=\"s\" text-anchor=\"middle\"");
  }
  out += textAt(right, bottom + 32, "step", "class=\"s\" text-anchor=\"end\"");
  auto line = [&](const std::function<double(const MaskChange &)> &value, const std::string &style) {
    std::string points;
    for (const MaskChange &update : report.updates)
      absl::StrAppendFormat(&points, "%.1f,%.1f ", x(update.step), y(value(update)));
    out += "<polyline fill=\"none\" " + style + " points=\"" + points + "\"/>\n";
  };
  double legend = top + 8;
  auto name = [&](const std::string &text, const std::string &style) {
    out += absl::StrFormat("<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\" %s/>\n", right + 16,
                           right + 38, legend - 4, legend - 4, style);
    out += textAt(right + 44, legend, text, "class=\"s\"");
    legend += 17;
  };
  for (size_t row = 0; row < table.kinds.size(); ++row) {
    std::vector<std::string> members;
    for (const auto &[place, layer] : table.cells)
      if (place.first == row)
        members.push_back(layer->name);
    const std::string style =
        absl::StrFormat("stroke=\"%s\" stroke-width=\"1.3\" opacity=\"0.75\"", palette[row % palette.size()]);
    line(
        [&](const MaskChange &update) {
          MaskChange::Layer sum;
          for (const MaskChange::Layer &layer : update.layers)
            if (std::find(members.begin(), members.end(), layer.name) != members.end())
              sum.kept += layer.kept, sum.grown += layer.grown, sum.dropped += layer.dropped;
          return churn(sum);
        },
        style);
    name(table.kinds[row], style);
  }
  line([&](const MaskChange &update) { return churn(update.total()); },
       "stroke=\"#14202e\" stroke-width=\"2.4\"");
  name("all", "stroke=\"#14202e\" stroke-width=\"2.4\"");
  if (!gradual) {
    line([](const MaskChange &update) { return update.share; },
         "stroke=\"#8793a1\" stroke-dasharray=\"5 4\"");
    name("schedule", "stroke=\"#8793a1\" stroke-dasharray=\"5 4\"");
  }
  return out;
}

} // namespace

std::string masksPlot(const MaskReport &report, const std::string &title) {
  const Table table(report);
  double densest = 0;
  bool ages = false;
  for (const MaskLayer &layer : report.layers) {
    densest = std::max(densest, layer.counts.density());
    if (layer.ages)
      ages = true;
  }
  std::vector<Map> maps = {{"Density, % of the weights", blue, densest,
                            [](const MaskLayer &layer) { return layer.counts.density(); },
                            [](const MaskCounts &counts) { return counts.density(); }, percent},
                           {"Kept since the start, % of the kept", green, 1,
                            [](const MaskLayer &layer) { return layer.counts.overlap(); },
                            [](const MaskCounts &counts) { return counts.overlap(); }, percent}};
  if (ages)
    maps.push_back({"Mean age, steps", orange, static_cast<double>(report.step),
                    [](const MaskLayer &layer) { return layer.ages ? layer.ages->mean : 0; }, nullptr,
                    [](double age) { return absl::StrFormat("%.0f", age); }});
  // Maps side by side where their cells stay legible, else one below another.
  const size_t beside = table.columns <= 6 ? maps.size() : 1;
  const double first = margin + labels,
               across = (width - margin - first - gap * static_cast<double>(beside - 1)) /
                        static_cast<double>(beside),
               mapHeight = 24 * static_cast<double>(table.kinds.size()) + 62;
  std::string body;
  double top = 116;
  for (size_t k = 0; k < maps.size(); ++k) {
    body += drawMap(table, maps[k], first + (across + gap) * static_cast<double>(k % beside), top, across,
                    k % beside == 0);
    if ((k + 1) % beside == 0)
      top += mapHeight;
  }
  top += 8;
  if (!report.updates.empty()) {
    const double high = std::max(180.0, 17.0 * static_cast<double>(table.kinds.size() + 2));
    body += drawChurn(report, table, top, high);
    top += high + 48;
  } else {
    body += textAt(margin, top - 14, "No update of the masks yet.", "class=\"h\"");
    top += 16;
  }
  return absl::StrFormat("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" "
                         "font-family=\"Helvetica, Arial, sans-serif\">\n"
                         "<style>.h{font-size:13px;font-weight:600;fill:#14202e}.l{font-size:11px;fill:#"
                         "3a4754}.s{font-size:10.5px;fill:#5c6875}"
                         ".c{font-size:10.5px;text-anchor:middle}</style>\n<rect width=\"100%%\" "
                         "height=\"100%%\" fill=\"#fff\"/>\n",
                         width, top) +
         textAt(margin, 34, title, "font-size=\"18\" font-weight=\"600\" fill=\"#14202e\"") +
         textAt(margin, 56,
                absl::StrFormat("step %d, method %s: %.2f %% of %s masked weights are kept, %.1f %% of these "
                                "since the start",
                                report.step, report.method, 100 * report.total.density(),
                                grouped(report.total.weights), 100 * report.total.overlap()),
                "font-size=\"12.5\" fill=\"#3a4754\"") +
         body + "</svg>\n";
}

} // namespace sluice::cli
