#include "session/table/request_keys.h"

#include <utility>

#include "base/limits.h"

namespace ringside {

uint64_t RequestKeys::Asked(const std::string& key, TurnSpec::Sending sending, double now_s) {
  if (sending != TurnSpec::Sending::kFirst) return ++last_;
  known_.erase(key);
  const auto [at, fresh] = first_sent_s_.insert_or_assign(key, now_s);
  if (fresh) first_sent_order_.push_back(key);
  if (first_sent_order_.size() > static_cast<size_t>(limits::kMaxRequestsRemembered)) {
    first_sent_s_.erase(first_sent_order_.front());
    first_sent_order_.pop_front();
  }
  return ++last_;
}

std::string RequestKeys::Find(const std::string& key) const {
  const auto at = known_.find(key);
  return at == known_.end() ? "" : at->second.response;
}

std::string RequestKeys::Add(const std::string& key, TurnSpec::Sending sending, uint64_t asked,
                             const std::string& response) {
  Known added{response, sending == TurnSpec::Sending::kAgain, ++last_};
  const auto [at, fresh] = known_.try_emplace(key, added);
  if (fresh) return response;
  // Two first transmissions are two requests, however alike; a retry that overtook this one is the same request.
  const bool overtaken = at->second.sent_again && at->second.added > asked;
  if (sending == TurnSpec::Sending::kFirst && !overtaken) at->second = std::move(added);
  return at->second.response;
}

void RequestKeys::Load(const std::string& key, const std::string& response, double created_s) {
  const auto sent = first_sent_s_.find(key);
  if (sent == first_sent_s_.end() || created_s >= sent->second) known_[key] = {response, false, ++last_};
}

void RequestKeys::Remove(const std::string& key, const std::string& response) {
  const auto at = known_.find(key);
  if (at != known_.end() && at->second.response == response) known_.erase(at);
}

}  // namespace ringside
