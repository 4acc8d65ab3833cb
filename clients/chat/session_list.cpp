#include "clients/chat/session_list.h"

#include <charconv>
#include <ctime>

#include "clients/chat/chat_client.h"
#include "clients/chat/remembered.h"

namespace ringside::client {
namespace {

void Pad(std::string& line, size_t columns) {
  if (line.size() < columns) line.resize(columns, ' ');
}

void AddLine(std::string& text, const char* name, const std::string& value) {
  if (value.empty()) return;
  std::string line = std::string("\n  ") + name;
  Pad(line, 12);
  text += line + value;
}

std::string Counted(int64_t count, const char* one) {
  return std::to_string(count) + " " + one + (count == 1 ? "" : "s");
}

std::string DescribeTokens(const ConversationSummary& session) {
  if (session.tokens < 0) return "";
  std::string text = Counted(session.tokens, "token");
  if (session.session_len > 0) text += " of at most " + std::to_string(session.session_len);
  if (session.memory_len > 0) text += "; " + std::to_string(session.memory_len) + " in view";
  if (session.pinned > 0) text += ", " + std::to_string(session.pinned) + " pinned";
  if (session.tokens_evicted > 0) text += ", " + std::to_string(session.tokens_evicted) + " evicted";
  return text;
}

std::string DescribeStorage(const ConversationSummary& session) {
  if (!session.durable) return "";
  if (!*session.durable) return "in memory only: lost when the server stops";
  std::string text = "on disk";
  if (session.seq) text += ", record " + std::to_string(*session.seq);
  if (!session.chain.empty()) text += ", chain " + session.chain;
  return text;
}

}  // namespace

std::string LocalTime(int64_t seconds) {
  const auto time = static_cast<std::time_t>(seconds);
  std::tm parts{};
  char text[32] = "";
  if (seconds > 0 && localtime_r(&time, &parts) != nullptr) std::strftime(text, sizeof text, "%F %H:%M", &parts);
  return text;
}

std::string DescribeCache(const std::string& cache) {
  if (cache == "slot") return "in a slot: the next turn costs its new tokens only";
  if (cache == "host") return "in host memory: the next turn copies it into a slot";
  if (cache == "disk") return "on disk: the next turn loads it into a slot";
  return cache.empty() ? "" : "none: the next turn recomputes everything";
}

std::string DescribeSession(const ConversationSummary& session) {
  std::string text = session.id;
  std::string times = LocalTime(session.created_at);
  if (session.updated_at > 0) times += ", last used " + LocalTime(session.updated_at);
  AddLine(text, "title", session.Title());
  AddLine(text, "made", times);
  AddLine(text, "messages", session.messages >= 0 ? std::to_string(session.messages) : "");
  AddLine(text, "tokens", DescribeTokens(session));
  AddLine(text, "cache", DescribeCache(session.cache));
  AddLine(text, "stored", DescribeStorage(session));
  AddLine(text, "epoch", session.epoch ? std::to_string(*session.epoch) : "");
  AddLine(text, "running", session.active_response);
  AddLine(text, "damaged", session.damage);
  return text;
}

std::string DescribeSessions(const std::vector<ConversationSummary>& sessions, const std::string& current) {
  if (sessions.empty()) return "There are no conversations on the server.";
  std::string text;
  for (size_t i = 0; i < sessions.size(); ++i) {
    const ConversationSummary& session = sessions[i];
    std::string line = session.id == current ? "* " : "  ";
    line += std::to_string(i + 1);
    Pad(line, 6);
    line += session.id;
    Pad(line, 36);
    line += LocalTime(session.updated_at > 0 ? session.updated_at : session.created_at);
    if (!session.damage.empty()) {
      text += (i > 0 ? "\n" : "") + line + "  damaged: " + session.damage;
      continue;
    }
    if (session.messages >= 0) line += "  " + Counted(session.messages, "message");
    if (session.tokens >= 0) line += ", " + Counted(session.tokens, "token");
    if (!session.cache.empty() && session.cache != "new") line += ", cache: " + session.cache;
    if (!session.active_response.empty()) line += ", answering";
    if (!session.Title().empty()) line += "\n      " + session.Title();
    text += (i > 0 ? "\n" : "") + line;
  }
  return text;
}

Outcome<std::string> FindConversation(const HttpClient& http, const std::string& name) {
  if (IsConversationId(name)) return name;
  size_t number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (error != std::errc() || end != name.data() + name.size() || number == 0) {
    return Failure{"\"" + name + "\" is not a conversation: give its id (conv_...) or its number in the list."};
  }
  std::vector<std::string> listed = ListedConversations(http.url());
  if (listed.empty()) {
    const Outcome<std::vector<ConversationSummary>> newest = ListConversations(http, number);
    if (!newest) return newest.failure();
    for (const ConversationSummary& session : *newest) listed.push_back(session.id);
  }
  if (number > listed.size()) {
    return Failure{"There is no number " + name + " in the list of conversations; it has " +
                   std::to_string(listed.size()) + "."};
  }
  return listed[number - 1];
}

Outcome<std::string> FindLastConversation(const HttpClient& http) {
  const std::string last = LastConversation(http.url());
  if (!last.empty()) {
    const Outcome<ConversationSummary> found = GetConversation(http, last);
    if (found) return last;
    if (found.failure().http_status != 404) return found.failure();
  }
  const Outcome<std::vector<ConversationSummary>> newest = ListConversations(http, 1);
  if (!newest) return newest.failure();
  if (newest->empty()) return Failure{"The server has no conversation to resume."};
  return newest->front().id;
}

}  // namespace ringside::client
