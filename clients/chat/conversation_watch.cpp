#include "clients/chat/conversation_watch.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <chrono>

#include "clients/wire/conversations.h"

namespace ringside::client {
namespace {

constexpr auto kInterval = std::chrono::seconds(2);
constexpr auto kPatience = std::chrono::seconds(3);

}  // namespace

ConversationWatch::ConversationWatch(const ServerAccess& server)
    : http_(server.url, server.api_key, kPatience),
      fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      thread_([this] { Work(); }) {}

ConversationWatch::~ConversationWatch() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_one();
  }
  thread_.join();
  ::close(fd_);
}

void ConversationWatch::Begin(const std::string& conversation, int64_t messages) {
  std::lock_guard lock(mutex_);
  conversation_ = conversation;
  messages_ = messages;
  ++number_;
  changed_.notify_one();
}

void ConversationWatch::End() {
  std::lock_guard lock(mutex_);
  conversation_.clear();
  ++number_;
  eventfd_t ignored = 0;
  ::eventfd_read(fd_, &ignored);
}

bool ConversationWatch::HasChanged(const std::string& conversation, int64_t messages) const {
  const Outcome<ConversationSummary> now = GetConversation(http_, conversation);
  return now && now->messages >= 0 && now->messages != messages && now->active_response.empty();
}

void ConversationWatch::Work() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (conversation_.empty()) {
      changed_.wait(lock, [this] { return stopping_ || !conversation_.empty(); });
      continue;
    }
    const uint64_t number = number_;
    changed_.wait_for(lock, kInterval, [&] { return stopping_ || number_ != number; });
    if (stopping_ || number_ != number) continue;
    const std::string conversation = conversation_;
    const int64_t messages = messages_;
    lock.unlock();
    const bool differs = HasChanged(conversation, messages);
    lock.lock();
    if (!differs || number_ != number) continue;
    conversation_.clear();  // reported once
    ::eventfd_write(fd_, 1);
  }
}

}  // namespace ringside::client
