// Mutates valid inputs, the same way in every run: flips bits, removes, repeats, inserts and splices pieces, and sets
// numbers, binary or decimal, to values that lengths and counts must not have. THREAD: one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace ringside {

class Mutator {
 public:
  /// REQUIRES: `seeds` is not empty.
  explicit Mutator(std::vector<std::string> seeds) : seeds_(std::move(seeds)) {}

  /// One of the seeds with one to eight mutations.
  std::string Next();

 private:
  size_t Below(size_t count) { return count == 0 ? 0 : static_cast<size_t>(random_() % count); }
  void Change(std::string& bytes);
  void SetNumber(std::string& bytes);
  void SetDigits(std::string& bytes);

  std::vector<std::string> seeds_;
  std::mt19937_64 random_{20260101};
};

}  // namespace ringside
