#include "session/postgres/postgres_target.h"

#include <libpq-fe.h>

#include <map>
#include <memory>
#include <string_view>

namespace ringside {
namespace {

constexpr size_t kMostHosts = 16;

// A peer that vanishes is noticed within some 10 s.
constexpr std::pair<const char*, const char*> kDefaults[] = {
    {"target_session_attrs", "read-write"}, {"keepalives", "1"},       {"keepalives_idle", "5"},
    {"keepalives_interval", "2"},           {"keepalives_count", "3"}, {"tcp_user_timeout", "10000"},
};

std::vector<std::string> SplitCommas(std::string_view text) {
  std::vector<std::string> parts;
  for (;;) {
    const size_t comma = text.find(',');
    parts.emplace_back(text.substr(0, comma));
    if (comma == std::string_view::npos) return parts;
    text.remove_prefix(comma + 1);
  }
}

}  // namespace

Result<std::vector<PostgresTarget::Settings>> PostgresTarget::Parse(const std::string& url,
                                                                    const std::string& application) {
  const Status wrong = InvalidArgument(
      "the store's URL is not valid: it must be like postgresql://user@host:5432/database, with special characters of "
      "a password as %XX");
  if (!url.starts_with("postgresql://") && !url.starts_with("postgres://")) return wrong;
  char* message = nullptr;  // not used: it may quote the password
  const std::unique_ptr<PQconninfoOption, decltype(&PQconninfoFree)> options(PQconninfoParse(url.c_str(), &message),
                                                                             &PQconninfoFree);
  PQfreemem(message);
  if (options == nullptr) return wrong;
  std::map<std::string, std::string> settings(std::begin(kDefaults), std::end(kDefaults));
  settings["application_name"] = application;
  for (const PQconninfoOption* option = options.get(); option->keyword != nullptr; ++option) {
    if (option->val != nullptr) settings[option->keyword] = option->val;
  }
  settings["client_encoding"] = "UTF8";
  // A host that does not answer would consume the whole time if libpq had the list.
  std::map<std::string, std::vector<std::string>> lists;
  size_t hosts = 1;
  for (const char* name : {"host", "hostaddr", "port"}) {
    if (!settings.contains(name)) continue;
    lists[name] = SplitCommas(settings[name]);
    hosts = std::max(hosts, lists[name].size());
  }
  if (hosts > kMostHosts) return InvalidArgument("the store's URL has more than 16 hosts");
  std::vector<Settings> out;
  for (size_t i = 0; i < hosts; ++i) {
    for (const auto& [name, list] : lists) {
      if (list.size() != 1 && list.size() != hosts) return wrong;
      settings[name] = list[list.size() == 1 ? 0 : i];
    }
    out.emplace_back(settings.begin(), settings.end());
  }
  return out;
}

std::vector<const PostgresTarget::Settings*> PostgresTarget::InOrder() const {
  std::vector<const Settings*> order;
  const size_t first = preferred_;
  for (size_t i = 0; i < hosts_.size(); ++i) order.push_back(&hosts_[(first + i) % hosts_.size()]);
  return order;
}

}  // namespace ringside
