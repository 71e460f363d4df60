// What the tests of the command line share: programs as processes in a folder of their own, and a small world
// there: text, packed data, a tiny Mixture-of-Experts spec, its executable.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace sluice {

/// What a process left behind; `code` is 128 + the signal if one killed it.
struct Outcome {
  int code = -1;
  std::string out, err;
};

/// A program of the build, running in `folder` with both outputs in files there.
class Process {
public:
  /// `words` are the program's name and its arguments.
  Process(const std::string &folder, const std::vector<std::string> &words);
  ~Process();
  Process(const Process &) = delete;
  Process &operator=(const Process &) = delete;
  void signal(int number) const;
  /// Waits for the end.
  Outcome wait();

private:
  std::string outPath, errPath;
  int pid = -1;
};

class CommandLine : public testing::Test {
public:
  static void SetUpTestSuite();
  static void TearDownTestSuite();

protected:
  /// Runs a command line whose words are separated by spaces, in the world's folder.
  static Outcome run(const std::string &line);
  static Outcome run(const std::vector<std::string> &words);
  /// Runs it and expects exit code 0.
  static Outcome good(const std::string &line);
  /// Runs it and expects `code` and each of `parts` on standard error.
  static void bad(const std::string &line, int code, const std::vector<std::string> &parts);

  static std::string path(const std::string &name) { return folder + "/" + name; }
  static std::string read(const std::string &name);
  static void write(const std::string &name, const std::string &text);
  static bool exists(const std::string &name);
  /// The hash of everything in the checkpoint of that step, from its manifest.
  static std::string checkpointHash(const std::string &runFolder, int step);

  static std::string folder;
};

} // namespace sluice
