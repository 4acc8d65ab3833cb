// Interface of every *_fuzz.cpp in this folder: a parser of untrusted bytes, given arbitrary ones, and valid examples.
// It must not crash, hang, or allocate memory out of proportion to its input. The same file runs under libFuzzer
// (scripts/fuzz) and under driver.cpp, which ctest runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace ringside {

/// The initial inputs; the same in every run.
std::vector<std::string> Seeds();

/// Separates the parts of an input; it is found again after mutations of the parts around it.
inline constexpr std::string_view kBorder = "\n~~~~\n";

/// Splits an input into exactly `count` parts; the last one has the rest. Missing ones are empty.
std::vector<std::string_view> SplitParts(const uint8_t* data, size_t size, size_t count);
/// All parts.
std::vector<std::string_view> SplitParts(const uint8_t* data, size_t size);
std::string JoinParts(const std::vector<std::string>& parts);

/// Aborts the process with a message, like a crash of the parser.
void Require(bool holds, std::string_view what);

/// Decisions read from bytes; 0 once these are used up.
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

/// This process's folder for parsers of files, deleted at the end.
class InputFolder {
 public:
  InputFolder();
  ~InputFolder();
  /// Writes `bytes` to a file; returns its path.
  std::string Write(std::string_view name, std::string_view bytes) const;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// A file of tests/golden.
std::string ReadGolden(const std::string& name);
/// The model families of tests/golden that have this file, as "families/NAME", sorted.
std::vector<std::string> GoldenFamiliesWith(const std::string& file);

}  // namespace ringside
