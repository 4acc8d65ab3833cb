// Permissions of a key. A plain value.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace ringside {

/// Any subset of the three scopes.
class Scopes {
 public:
  constexpr Scopes() = default;
  // the owner's conversations: everything except the scopes below
  static constexpr Scopes Chat() { return Scopes(1); }
  // import of exported conversations, verification of stored ones
  static constexpr Scopes Admin() { return Scopes(2); }
  static constexpr Scopes Metrics() { return Scopes(4); }  // the server's metrics
  static constexpr Scopes All() { return Scopes(7); }

  constexpr bool Has(Scopes other) const { return (bits_ & other.bits_) == other.bits_; }
  constexpr bool empty() const { return bits_ == 0; }
  constexpr Scopes operator|(Scopes other) const { return Scopes(bits_ | other.bits_); }
  constexpr bool operator==(const Scopes&) const = default;

  /// "chat,metrics".
  std::string ToString() const;
  /// Parses the names above, at least one, separated by commas.
  /// ERRORS: kInvalidArgument.
  static Result<Scopes> Parse(std::string_view names);

 private:
  explicit constexpr Scopes(unsigned bits) : bits_(bits) {}
  unsigned bits_ = 0;
};

}  // namespace ringside
