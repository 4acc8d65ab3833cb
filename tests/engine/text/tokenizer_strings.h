// The strings of the tokenizer's golden tests: a reimplementation of class Strings of
// tests/golden/make_tokenizer_golden.py, and the digest of a list of numbers.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace ringside {

std::string GoldenPath(const std::string& name);             // tests/golden/tokenizer/<name>
std::vector<uint32_t> ReadDigests(const std::string& name);  // <name>.u32

class GoldenStrings {
 public:
  GoldenStrings();
  /// String number `i`: any bytes. The first few are long runs of one character.
  std::string Make(uint64_t i);
  size_t long_runs() const { return long_runs_.size(); }

 private:
  uint64_t Below(uint64_t n);
  std::string Fragment();
  std::string Character();
  std::string Mixed();

  uint64_t state_ = 0;
  std::vector<std::string> fragments_, long_runs_;
  std::vector<std::pair<uint32_t, uint32_t>> ranges_;
};

class Digest {
 public:
  void Add(uint32_t number) { hash_ = (hash_ ^ number) * 0x100000001B3u; }
  uint32_t value() const { return static_cast<uint32_t>(hash_ ^ hash_ >> 32); }

 private:
  uint64_t hash_ = 0xCBF29CE484222325u;
};

}  // namespace ringside
