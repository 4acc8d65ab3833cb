#include "clients/chat/remembered.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <utility>

#include "clients/chat/chat_client.h"
#include "clients/terminal/history.h"

namespace ringside::client {
namespace {

constexpr size_t kMaxRemembered = 50;

using Remembered = std::vector<std::pair<std::string, std::string>>;  // (server, conversation), most recent first

std::string StateFile(const char* name) {
  const std::string folder = StateFolder();
  return folder.empty() ? "" : folder + name;
}

Remembered Read(const std::string& path) {
  Remembered all;
  std::ifstream file(path);
  std::string server, id;
  while (file >> server >> id) all.emplace_back(server, id);
  return all;
}

void Write(const std::string& path, const Remembered& all) {
  const std::string next = path + ".new";
  {
    std::ofstream file(next);
    for (const auto& [server, conversation] : all) file << server << ' ' << conversation << '\n';
    if (!file.good()) return;
  }
  std::rename(next.c_str(), path.c_str());
}

}  // namespace

std::string LastConversation(const ServerUrl& url) {
  for (const auto& [server, id] : Read(StateFile("/last"))) {
    if (server == url.Authority() && IsConversationId(id)) return id;
  }
  return "";
}

void RememberLastConversation(const ServerUrl& url, const std::string& id) {
  const std::string path = StateFile("/last");
  if (path.empty() || id.empty()) return;
  Remembered all = Read(path);
  std::erase_if(all, [&](const auto& entry) { return entry.first == url.Authority(); });
  all.insert(all.begin(), {url.Authority(), id});
  if (all.size() > kMaxRemembered) all.resize(kMaxRemembered);
  Write(path, all);
}

std::vector<std::string> ListedConversations(const ServerUrl& url) {
  std::vector<std::string> ids;
  for (const auto& [server, id] : Read(StateFile("/listed"))) {
    if (server == url.Authority() && IsConversationId(id)) ids.push_back(id);
  }
  return ids;
}

void RememberListed(const ServerUrl& url, const std::vector<std::string>& ids) {
  const std::string path = StateFile("/listed");
  if (path.empty()) return;
  Remembered all;  // for the last server only: numbers of two lists would be confusing
  for (const std::string& id : ids) all.emplace_back(url.Authority(), id);
  Write(path, all);
}

}  // namespace ringside::client
