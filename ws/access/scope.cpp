#include "ws/access/scope.h"

#include <algorithm>
#include <utility>

namespace ringside {
namespace {

constexpr std::pair<std::string_view, Scopes> kNames[] = {
    {"chat", Scopes::Chat()}, {"admin", Scopes::Admin()}, {"metrics", Scopes::Metrics()}};

}  // namespace

std::string Scopes::ToString() const {
  std::string out;
  for (const auto& [name, scope] : kNames) {
    if (Has(scope)) out.append(out.empty() ? "" : ",").append(name);
  }
  return out;
}

Result<Scopes> Scopes::Parse(std::string_view names) {
  Scopes all;
  while (true) {
    const size_t comma = std::min(names.find(','), names.size());
    const std::string_view name = names.substr(0, comma);
    const auto* known =
        std::find_if(std::begin(kNames), std::end(kNames), [name](const auto& entry) { return entry.first == name; });
    if (known == std::end(kNames)) {
      return InvalidArgument("\"" + std::string(name) + "\" is no scope: there are chat, admin and metrics");
    }
    all = all | known->second;
    if (comma == names.size()) return all;
    names.remove_prefix(comma + 1);
  }
}

}  // namespace ringside
