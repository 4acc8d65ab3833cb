// Looks every few seconds whether others have said something in a conversation, while its user sits before the prompt.
// Owned by the chat; a thread of its own does the asking, everything else is the main thread's.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "clients/wire/http_client.h"
#include "clients/wire/server_access.h"

namespace ringside::client {

class ConversationWatch {
 public:
  explicit ConversationWatch(const ServerAccess& server);
  ~ConversationWatch();
  ConversationWatch(const ConversationWatch&) = delete;
  ConversationWatch& operator=(const ConversationWatch&) = delete;

  /// From now on, until End: makes fd() readable once the conversation has another number of messages than `messages`
  /// and no answer is being written.
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
  uint64_t number_ = 0;  // counts Begin and End
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace ringside::client
