// How `--help` looks: descriptions wrapped so that no line is longer than 100 columns.
#pragma once

#include <CLI/CLI.hpp>

#include <string>

namespace sluice::cli {

inline constexpr size_t helpWidth = 100;

/// `text` with its lines broken between words at `width` columns; a continued line starts with `indent`
/// spaces. Line breaks of the text stay, and a line that starts with a space is taken as it is.
std::string wrapText(const std::string &text, size_t width, size_t indent = 0);

class HelpFormatter : public CLI::Formatter {
public:
  HelpFormatter() { column_width(30); }
  std::string make_description(const CLI::App *app) const override;
  std::string make_footer(const CLI::App *app) const override;
  std::string make_option(const CLI::Option *option, bool positional) const override;
  std::string make_subcommand(const CLI::App *command) const override;

private:
  std::string entry(const std::string &name, const std::string &description) const;
};

} // namespace sluice::cli
