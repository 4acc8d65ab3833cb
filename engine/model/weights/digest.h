// A digest that bytes, numbers and texts are streamed into: XXH3-128. It tells files apart that differ by accident or
// by version, not by forgery. A value that one thread fills.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string_view>

namespace ringside {

class Digest {
 public:
  Digest();
  ~Digest();
  Digest(Digest&&) noexcept;
  Digest& operator=(Digest&&) noexcept;

  /// Bytes alone; AddText puts their number in front, so that two texts cannot run into one another.
  void AddBytes(const void* data, size_t bytes);
  void AddText(std::string_view text);
  void AddNumber(int64_t value);
  void AddFloat(double value);

  /// Of everything added so far.
  std::array<uint8_t, 16> Get() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ringside
