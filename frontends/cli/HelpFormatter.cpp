#include "frontends/cli/HelpFormatter.h"

#include <sstream>

namespace sluice::cli {

std::string wrapText(const std::string &text, size_t width, size_t indent) {
  std::string out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!out.empty())
      out += "\n" + std::string(indent, ' ');
    if (line.starts_with(' ') || line.size() + indent <= width) {
      out += line;
      continue;
    }
    size_t column = indent;
    std::istringstream words(line);
    for (std::string word; words >> word;) {
      if (column > indent && column + 1 + word.size() > width) {
        out += "\n" + std::string(indent, ' ');
        column = indent;
      } else if (column > indent) {
        out += " ";
        ++column;
      }
      out += word;
      column += word.size();
    }
  }
  return out;
}

std::string HelpFormatter::entry(const std::string &name, const std::string &description) const {
  size_t column = get_column_width();
  std::string out = "  " + name;
  if (description.empty())
    return out + "\n";
  // A name that fills its column leaves the description to the next line.
  out += out.size() + 1 > column ? "\n" + std::string(column, ' ') : std::string(column - out.size(), ' ');
  return out + wrapText(description, helpWidth, column) + "\n";
}

std::string HelpFormatter::make_description(const CLI::App *app) const {
  return wrapText(app->get_description(), helpWidth) + "\n";
}

std::string HelpFormatter::make_footer(const CLI::App *app) const {
  std::string footer = app->get_footer();
  return footer.empty() ? footer : wrapText(footer, helpWidth) + "\n";
}

std::string HelpFormatter::make_option(const CLI::Option *option, bool positional) const {
  return entry(make_option_name(option, positional) + make_option_opts(option), make_option_desc(option));
}

std::string HelpFormatter::make_subcommand(const CLI::App *command) const {
  return entry(command->get_name(), command->get_description());
}

} // namespace sluice::cli
