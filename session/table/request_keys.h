// Which response a repeated request leads to, by the request's key. Owned by the session table, under its mutex.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <unordered_map>

#include "session/turn/turn_spec.h"

namespace ringside {

class RequestKeys {
 public:
  /// A request of this key has come; returns when, for Add. One that is sent for the first time takes the key away from
  /// the response of an earlier one that merely asked the same, for good: whatever repetition comes next is its own.
  uint64_t Asked(const std::string& key, TurnSpec::Sending sending, double now_s);
  /// "" = none.
  std::string Find(const std::string& key) const;
  /// The response that the key stands for: `response`, or that of the same request where it was begun meanwhile.
  std::string Add(const std::string& key, TurnSpec::Sending sending, uint64_t asked, const std::string& response);
  /// A response that was stored. Of those with one key the last one told counts, if it was not asked for before the
  /// request that was sent last.
  void Load(const std::string& key, const std::string& response, double created_s);
  /// The response is forgotten.
  void Remove(const std::string& key, const std::string& response);

 private:
  struct Known {
    std::string response;
    bool sent_again = false;  // it was begun by a repetition
    uint64_t added = 0;
  };
  std::unordered_map<std::string, Known> known_;
  uint64_t last_ = 0;  // what has happened is numbered
  // When requests were last sent for the first time; beyond a number the oldest are forgotten.
  std::unordered_map<std::string, double> first_sent_s_;
  std::deque<std::string> first_sent_order_;
};

}  // namespace ringside
