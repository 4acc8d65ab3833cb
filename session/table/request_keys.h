// Maps request keys to responses, so that a repeated request finds its response. Owned by the session table, used under
// its mutex.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <unordered_map>

#include "session/turn/turn_spec.h"

namespace ringside {

class RequestKeys {
 public:
  /// Notes the arrival of a request; returns its time for Add. A first transmission permanently detaches the key from
  /// an earlier request with the same content: later retries belong to the new one.
  uint64_t Asked(const std::string& key, TurnSpec::Sending sending, double now_s);
  /// "" = none.
  std::string Find(const std::string& key) const;
  /// Registers `response` under the key; returns it, or the response of the same request if that was started meanwhile.
  std::string Add(const std::string& key, TurnSpec::Sending sending, uint64_t asked, const std::string& response);
  /// Restores a stored response. Among those with one key the last loaded counts, unless it was requested before the
  /// latest first transmission.
  void Load(const std::string& key, const std::string& response, double created_s);
  /// Removes a dropped response.
  void Remove(const std::string& key, const std::string& response);

 private:
  struct Known {
    std::string response;
    bool sent_again = false;  // started by a retry
    uint64_t added = 0;
  };
  std::unordered_map<std::string, Known> known_;
  uint64_t last_ = 0;  // logical clock of arrivals
  // Times of the latest first transmissions; above a limit the oldest are dropped.
  std::unordered_map<std::string, double> first_sent_s_;
  std::deque<std::string> first_sent_order_;
};

}  // namespace ringside
