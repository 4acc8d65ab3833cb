// What every file of this folder that is called *_fuzz.cpp defines: a reader of bytes from outside, given any bytes,
// and valid examples of what it reads. It must not crash, hang, or take memory out of proportion to the bytes. The same
// file runs under libFuzzer (scripts/fuzz) and under driver.cpp, which ctest runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace ringside {

/// What changes begin with; the same in every run.
std::vector<std::string> Seeds();

/// Stands between the parts of an input. A border is found again wherever the parts around it have been changed.
inline constexpr std::string_view kBorder = "\n~~~~\n";

/// The parts of an input; exactly `count`, of which the last has all the rest. Missing ones are empty.
std::vector<std::string_view> SplitParts(const uint8_t* data, size_t size, size_t count);
/// All of them.
std::vector<std::string_view> SplitParts(const uint8_t* data, size_t size);
std::string JoinParts(const std::vector<std::string>& parts);

/// Ends the process with a message, as a crash of the reader would.
void Require(bool holds, std::string_view what);

/// Decisions that are read from bytes; 0 when these are used up.
class Choices {
 public:
  explicit Choices(std::string_view bytes) : rest_(bytes) {}

  bool done() const { return rest_.empty(); }
  /// In [0, count).
  size_t Below(size_t count) { return Byte() % count; }
  bool Coin() { return Below(2) == 1; }
  uint8_t Byte() {
    if (rest_.empty()) return 0;
    const auto byte = static_cast<uint8_t>(rest_.front());
    rest_.remove_prefix(1);
    return byte;
  }

 private:
  std::string_view rest_;
};

/// A folder of this process for readers of files, emptied at the end.
class InputFolder {
 public:
  InputFolder();
  ~InputFolder();
  /// The path of the file, which now holds `bytes`.
  std::string Write(std::string_view name, std::string_view bytes) const;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// A file of tests/golden.
std::string ReadGolden(const std::string& name);

}  // namespace ringside
