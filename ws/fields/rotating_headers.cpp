#include "ws/fields/rotating_headers.h"

#include <algorithm>
#include <array>

namespace ringside {
namespace {

// The list is documented in PROTOCOL.md, "Stateless requests".
constexpr std::array<std::string_view, 1> kHeaders = {
    "x-anthropic-billing-header:",  // Claude Code: version, entry point, and a hash of the request
};

}  // namespace

std::string_view WithoutRotatingHeaders(std::string_view text) {
  const auto begins = [&](std::string_view header) { return text.starts_with(header); };
  while (std::ranges::any_of(kHeaders, begins)) {
    text.remove_prefix(std::min(text.find('\n'), text.size()));
    text.remove_prefix(std::min(text.find_first_not_of('\n'), text.size()));
  }
  return text;
}

}  // namespace ringside
