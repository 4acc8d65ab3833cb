// Polls every few seconds for messages that others added to a conversation while its user is at the prompt. Owned by
// the chat; polls on a separate thread, everything else runs on the main thread.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "clients/wire/server_access.h"
#include "clients/wire/transport/http_client.h"

namespace ringside::client {

class ConversationWatch {
 public:
  explicit ConversationWatch(const ServerAccess& server);
  ~ConversationWatch();
  ConversationWatch(const ConversationWatch&) = delete;
  ConversationWatch& operator=(const ConversationWatch&) = delete;

  /// Starts watching until End: makes fd() readable once the conversation's message count differs from `messages` and
  /// no answer is running.
  void Begin(const std::string& conversation, int64_t messages);
  void End();
  int fd() const { return fd_; }

 private:
  void Work();
  bool HasChanged(const std::string& conversation, int64_t messages) const;

  const HttpClient http_;
  const int fd_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string conversation_;  // "" = nothing is watched
  int64_t messages_ = 0;
  uint64_t number_ = 0;  // counts calls of Begin and End
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace ringside::client
