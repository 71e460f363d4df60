// Helpers of the checkpoint tests: a folder that disappears with the test, and safetensors files by hand.
#pragma once

#include "runtime/support/File.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <string_view>

namespace sluice::test {

/// A fresh folder, removed with everything in it. It lies in memory where the system offers that: the tests
/// make thousands of files, and what they check does not depend on the disk.
class TemporaryFolder {
public:
  TemporaryFolder() {
    for (const std::string &parent :
         {std::string("/dev/shm"), std::filesystem::temp_directory_path().string()}) {
      std::string pattern = parent + "/sluice-test-XXXXXX";
      if (const char *made = ::mkdtemp(pattern.data())) {
        root = made;
        return;
      }
    }
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(root, ignored);
  }
  TemporaryFolder(const TemporaryFolder &) = delete;
  TemporaryFolder &operator=(const TemporaryFolder &) = delete;
  std::string path(const std::string &name = "") const { return name.empty() ? root : root + "/" + name; }

private:
  std::string root;
};

/// Length, header and data of a safetensors file, exactly as given.
inline std::string safetensorsBytes(std::string_view header, std::string_view data = "") {
  std::string bytes;
  for (int i = 0; i < 8; ++i)
    bytes.push_back(static_cast<char>(static_cast<uint64_t>(header.size()) >> (8 * i)));
  return bytes.append(header).append(data);
}

/// The bytes of the values in memory order.
template <typename T> std::string bytesOf(std::initializer_list<T> values) {
  std::string bytes;
  for (T value : values)
    bytes.append(reinterpret_cast<const char *>(&value), sizeof value);
  return bytes;
}

inline bool mentions(const Status &status, std::string_view text) {
  return std::string_view(status.message().data(), status.message().size()).find(text) !=
         std::string_view::npos;
}

} // namespace sluice::test
