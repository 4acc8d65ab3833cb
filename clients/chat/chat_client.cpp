#include "clients/chat/chat_client.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

namespace ringside::client {

EventQueue::EventQueue() : fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

EventQueue::~EventQueue() { ::close(fd_); }

void EventQueue::Push(LinkEvent event) {
  std::lock_guard lock(mutex_);
  events_.push_back(std::move(event));
  if (events_.size() == 1) ::eventfd_write(fd_, 1);
}

std::optional<LinkEvent> EventQueue::Take() {
  std::lock_guard lock(mutex_);
  if (events_.empty()) return std::nullopt;
  LinkEvent event = std::move(events_.front());
  events_.pop_front();
  if (events_.empty()) {
    eventfd_t ignored = 0;
    ::eventfd_read(fd_, &ignored);
  }
  return event;
}

std::optional<LinkEvent> EventQueue::Wait(int timeout_ms) {
  pollfd ready{fd_, POLLIN, 0};
  ::poll(&ready, 1, timeout_ms);
  return Take();
}

ChatClient::ChatClient(const ServerAccess& server)
    : http_(server.url, server.api_key),
      link_(runtime_, {.url = server.url, .api_key = server.api_key},
            [this](LinkEvent event) { events_.Push(std::move(event)); }) {}

bool IsConversationId(const std::string& id) {
  return id.starts_with("conv_") && id.size() > 5 && id.size() <= 128 &&
         std::all_of(id.begin(), id.end(), [](unsigned char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '-';
         });
}

std::string DescribeReport(const TurnReport& report) {
  char number[64];
  std::string line;
  const auto add = [&line](const std::string& part) { line += (line.empty() ? "" : " · ") + part; };
  if (report.ttft_ms) {
    std::snprintf(number, sizeof number, "first token %.0f ms", *report.ttft_ms);
    add(number);
  }
  if (report.tokens_per_s) {
    std::snprintf(number, sizeof number, "%.1f tokens/s", *report.tokens_per_s);
    add(number);
  }
  add(std::to_string(report.output_tokens) + " tokens out");
  add(std::to_string(report.tokens_computed) + " computed, " + std::to_string(report.cached_tokens) + " cached");
  add("position " + std::to_string(report.position));
  add(std::to_string(report.tokens_evicted) + " evicted");
  if (!report.source.empty()) add("source " + report.source);
  if (report.restore_ms > 0) {
    std::snprintf(number, sizeof number, "restored in %.0f ms", report.restore_ms);
    add(number);
  }
  return line;
}

}  // namespace ringside::client
