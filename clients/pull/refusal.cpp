#include "clients/pull/refusal.h"

namespace ringside::client {

std::string DescribeRefusal(int status, const std::string& host, const std::string& what, bool on_hub, bool token) {
  const std::string number = " (HTTP " + std::to_string(status) + ")";
  if (status == 404) return host + " has no " + what + number + ".";
  if (status == 401 && on_hub && !token) {
    return host + " has no public " + what + number +
           ". If it is private or gated, put a token with access in HF_TOKEN.";
  }
  if (status == 401 && on_hub) return host + " does not accept the token in HF_TOKEN for " + what + number + ".";
  if (status == 403 && on_hub) {
    return host + " refuses " + what + number + ": its terms must be accepted on its page, by the owner of HF_TOKEN.";
  }
  if (status == 401 || status == 403) return host + " refuses access to " + what + number + ".";
  if (status == 429) return host + " takes no more requests for now" + number + "; try again later.";
  if (status >= 500) return host + " cannot serve " + what + " now" + number + "; try again later.";
  return host + " answered HTTP " + std::to_string(status) + " for " + what + ".";
}

bool IsTemporary(int status) { return status == 408 || status == 429 || status >= 500; }

}  // namespace ringside::client
