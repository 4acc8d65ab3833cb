// What a key may be used for. A plain value.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace ringside {

/// Any number of the three.
class Scopes {
 public:
  constexpr Scopes() = default;
  static constexpr Scopes Chat() { return Scopes(1); }     // one's own conversations: everything but what follows
  static constexpr Scopes Admin() { return Scopes(2); }    // taking in exported conversations, checking stored ones
  static constexpr Scopes Metrics() { return Scopes(4); }  // the server's figures
  static constexpr Scopes All() { return Scopes(7); }

  constexpr bool Has(Scopes other) const { return (bits_ & other.bits_) == other.bits_; }
  constexpr bool empty() const { return bits_ == 0; }
  constexpr Scopes operator|(Scopes other) const { return Scopes(bits_ | other.bits_); }
  constexpr bool operator==(const Scopes&) const = default;

  /// "chat,metrics".
  std::string ToString() const;
  /// Of the names above, at least one, with commas. kInvalidArgument for anything else.
  static Result<Scopes> Parse(std::string_view names);

 private:
  explicit constexpr Scopes(unsigned bits) : bits_(bits) {}
  unsigned bits_ = 0;
};

}  // namespace ringside
