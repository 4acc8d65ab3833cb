#include "clients/cli/session_list.h"

#include <ctime>
#include <nlohmann/json.hpp>

#include "clients/cli/chat_client.h"

namespace ringside::client {
namespace {

std::string LocalTime(int64_t seconds) {
  const auto time = static_cast<std::time_t>(seconds);
  std::tm parts{};
  char text[32] = "";
  if (seconds > 0 && localtime_r(&time, &parts) != nullptr) std::strftime(text, sizeof text, "%F %H:%M", &parts);
  return text;
}

void Pad(std::string& line, size_t columns) {
  if (line.size() < columns) line.resize(columns, ' ');
}

}  // namespace

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
    line += LocalTime(session.created_at);
    if (session.messages >= 0) line += "  " + std::to_string(session.messages) + " messages";
    if (session.tokens >= 0) line += ", " + std::to_string(session.tokens) + " tokens";
    text += (i > 0 ? "\n" : "") + line;
  }
  return text;
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
  if (newest->empty()) return Failure{"There is no conversation on the server to go on with."};
  return newest->front().id;
}

Outcome<std::string> ModelName(const HttpClient& http) {
  const Outcome<HttpAnswer> answer = http.Request("GET", "/models");
  if (!answer) return answer.failure();
  const auto json = nlohmann::json::parse(answer->body, nullptr, false);
  const auto path = nlohmann::json::json_pointer("/data/0/id");
  if (!json.is_object() || !json.contains(path) || !json[path].is_string()) return std::string("a model");
  return json[path].get<std::string>();
}

}  // namespace ringside::client
