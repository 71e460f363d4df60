// The one list of phases against what the design says of them.
#include "passes/Phases.h"

#include "gtest/gtest.h"

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

using namespace sluice;

namespace {

/// The names in the first column of the table of section 5; a row may name several phases.
std::vector<std::string> phasesOfDesign() {
  std::ifstream file(SLUICE_SOURCE_DIR "/docs/design.md");
  EXPECT_TRUE(file) << "docs/design.md cannot be read";
  std::vector<std::string> names;
  bool inSection = false, inTable = false;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("## "))
      inSection = line.starts_with("## 5. Phases");
    if (!inSection || !line.starts_with("| "))
      continue;
    // The rows after the ruler `| --- |`.
    if (line.starts_with("| ---")) {
      inTable = true;
      continue;
    }
    if (!inTable)
      continue;
    std::istringstream column(line.substr(2, line.find(" |") - 2));
    for (std::string name; column >> name;) {
      if (name.ends_with(','))
        name.pop_back();
      names.push_back(name);
    }
  }
  return names;
}

TEST(Phases, TheDesignNamesThemAllInOrder) {
  std::vector<std::string> expected;
  for (const PhaseInfo &info : phases())
    expected.push_back(info.name.str());
  // Codegen's phases come after the passes'.
  expected.push_back("generate");
  expected.push_back("package");
  EXPECT_EQ(phasesOfDesign(), expected)
      << "the table of docs/design.md, section 5, and passes/Phases.cpp differ";
}

TEST(Phases, EachIsFoundByItsName) {
  for (const PhaseInfo &info : phases()) {
    EXPECT_EQ(phaseByName(info.name), info.phase);
    EXPECT_EQ(phaseName(info.phase), info.name);
    EXPECT_FALSE(info.description.empty());
  }
  EXPECT_EQ(phaseByName("fuse"), std::nullopt);
}

} // namespace
