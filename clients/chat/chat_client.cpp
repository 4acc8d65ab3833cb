#include "clients/chat/chat_client.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <utility>
#include <vector>

#include "clients/terminal/history.h"

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
      link_(runtime_, {.url = server.url, .api_key = server.api_key}, [this](LinkEvent event) { events_.Push(std::move(event)); }) {}

bool IsConversationId(const std::string& id) {
  return id.starts_with("conv_") && id.size() > 5 && id.size() <= 128 &&
         std::all_of(id.begin(), id.end(), [](unsigned char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '-';
         });
}

namespace {

constexpr size_t kMaxRemembered = 50;

using Remembered = std::vector<std::pair<std::string, std::string>>;  // server, conversation; the latest first

std::string LastFile() {
  const std::string folder = StateFolder();
  return folder.empty() ? "" : folder + "/last";
}

Remembered ReadLast(const std::string& path) {
  Remembered all;
  std::ifstream file(path);
  std::string server, id;
  while (file >> server >> id) all.emplace_back(server, id);
  return all;
}

}  // namespace

std::string LastConversation(const ServerUrl& url) {
  for (const auto& [server, id] : ReadLast(LastFile())) {
    if (server == url.Authority() && IsConversationId(id)) return id;
  }
  return "";
}

void RememberLastConversation(const ServerUrl& url, const std::string& id) {
  const std::string path = LastFile();
  if (path.empty() || id.empty()) return;
  Remembered all = ReadLast(path);
  std::erase_if(all, [&](const auto& entry) { return entry.first == url.Authority(); });
  all.insert(all.begin(), {url.Authority(), id});
  if (all.size() > kMaxRemembered) all.resize(kMaxRemembered);
  const std::string next = path + ".new";
  {
    std::ofstream file(next);
    for (const auto& [server, conversation] : all) file << server << ' ' << conversation << '\n';
    if (!file.good()) return;
  }
  std::rename(next.c_str(), path.c_str());
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
