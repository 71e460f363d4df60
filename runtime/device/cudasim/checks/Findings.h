// What the checks found, in a form to read and to test.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace sluice::cudasim {

enum class Check : uint8_t { Memory, Init, Race, Barrier, Launch };
constexpr int kCheckCount = 5;

/// "memory", "init", "race", "barrier", "launch"
std::string_view checkName(Check check);

/// A set of checks.
struct CheckSet {
  uint8_t bits = 0;
  bool has(Check check) const { return bits >> static_cast<int>(check) & 1; }
  void add(Check check) { bits = static_cast<uint8_t>(bits | 1 << static_cast<int>(check)); }
};

struct Finding {
  Check check = Check::Memory;
  std::string kernel;
  std::string label;       // "command gemm of 'layers.0.attn.wq'"; empty: the program named nothing
  std::string place;       // "kernel.cu:12", or the PTX file's line
  std::string instruction; // "st.global.f32"
  uint64_t blockIndex = 0; // linear; block and thread are meaningless for Launch
  uint32_t block[3] = {0, 0, 0}, thread[3] = {0, 0, 0};
  uint64_t address = 0;
  std::string message;
  uint64_t count = 1; // times that this instruction gave this finding

  /// One line: "memory: kernel 'k' at k.cu:12 (st.global.f32), block (0,0,0), thread (3,0,0): ..., 4 times"
  std::string text() const;
};

/// Collects findings from several threads. One instruction gives one finding of a kind, with a count; the
/// one kept is that of the lowest block and thread, so that the list does not depend on timing.
class FindingLog {
public:
  void add(Finding finding);
  /// By check, kernel, place, block.
  std::vector<Finding> all() const;
  bool empty() const;
  void clear();

private:
  using Key = std::tuple<Check, std::string, std::string, std::string>;
  mutable std::mutex mutex;
  std::map<Key, Finding> findings;
};

} // namespace sluice::cudasim
