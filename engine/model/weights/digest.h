// A streaming XXH3-128 digest of bytes, numbers and texts. Detects accidental or version differences, not forgery. A
// value; THREAD: one.
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

  /// Adds bytes only; AddText adds their number first, so that adjacent texts cannot be confused.
  void AddBytes(const void* data, size_t bytes);
  void AddText(std::string_view text);
  void AddNumber(int64_t value);
  void AddFloat(double value);

  /// The digest of everything added so far.
  std::array<uint8_t, 16> Get() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ringside
