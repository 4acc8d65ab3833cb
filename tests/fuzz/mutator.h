// Makes a changed input of valid ones, the same ones in every run: bits flipped, pieces cut, repeated, inserted and
// taken from another input, and numbers, in binary or in digits, set to what lengths and counts should not be. One
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace ringside {

class Mutator {
 public:
  /// `seeds` is not empty.
  explicit Mutator(std::vector<std::string> seeds) : seeds_(std::move(seeds)) {}

  /// One of the seeds with one to eight changes.
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
