#include "session/postgres/postgres_names.h"

#include <algorithm>

#include "base/hex.h"
#include "session/journal/journal.h"

namespace ringside {
namespace {

bool IsPrintable(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c >= ' ' && c <= '~'; });
}

}  // namespace

bool IsStoredName(std::string_view session) {
  return !session.empty() && session.size() <= kMaxJournalSessionBytes && IsPrintable(session);
}

std::string OwnerColumn(const std::optional<SealKey>& master, std::string_view owner) {
  if (!master) return IsPrintable(owner) && !owner.starts_with('\\') ? std::string(owner) : "\\x" + HexText(owner);
  const auto name = KeyedName(*master, owner);
  return HexText({reinterpret_cast<const char*>(name.data()), name.size()});
}

}  // namespace ringside
