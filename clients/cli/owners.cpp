#include "clients/cli/owners.h"

#include <cstdio>
#include <string>
#include <string_view>

#include "clients/terminal/sanitiser.h"
#include "clients/wire/owners.h"

namespace ringside::client {
namespace {

std::string OwnerLine(const std::string& name, const std::string& conversations, const std::string& chains,
                      const std::string& stored, const std::string& text, const std::string& turns) {
  char line[256];
  std::snprintf(line, sizeof line, "%-24.64s  %13s  %8s  %12s  %12s  %6s\n", name.c_str(), conversations.c_str(),
                chains.c_str(), stored.c_str(), text.c_str(), turns.c_str());
  return line;
}

std::string BytesText(int64_t bytes) {
  char text[32];
  const bool small = bytes < 10 << 20;
  std::snprintf(text, sizeof text, small ? "%.0f KiB" : "%.0f MiB",
                static_cast<double>(bytes) / (small ? 1 << 10 : 1 << 20));
  return text;
}

/// The name in the keys file; without one, the server's name for the key.
std::string NameOf(const std::string& owner) {
  constexpr std::string_view kNamed = "owner:";
  if (owner.empty()) return "(no key)";
  return owner.starts_with(kNamed) ? owner.substr(kNamed.size()) : owner;
}

std::string OwnerLine(const OwnerSummary& owner, const std::string& name) {
  return OwnerLine(name, std::to_string(owner.conversations), std::to_string(owner.chains),
                   BytesText(owner.stored_bytes), BytesText(owner.text_bytes), std::to_string(owner.turns));
}

}  // namespace

int ShowOwners(const ServerAccess& server, bool json) {
  const Outcome<OwnerList> list = ListOwners(HttpClient(server.url, server.api_key));
  if (!list) {
    const bool scope = list.failure().http_status == 404;
    const std::string why =
        scope ? "The server lists its owners for a key with scope admin only." : list.failure().message;
    std::fprintf(stderr, "ringside: %s\n", Sanitise(why).c_str());
    return 1;
  }
  if (json) {
    std::printf("%s\n", list->json.c_str());
    return 0;
  }
  std::string text = OwnerLine("owner", "conversations", "chains", "on disk", "in memory", "active");
  for (const OwnerSummary& owner : list->owners) text += OwnerLine(owner, NameOf(owner.owner));
  text += OwnerLine(list->totals, "all");
  std::fputs(Sanitise(text).c_str(), stdout);
  return 0;
}

}  // namespace ringside::client
