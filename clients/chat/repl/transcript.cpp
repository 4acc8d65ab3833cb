#include "clients/chat/repl/transcript.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>

#include "clients/terminal/sanitiser.h"
#include "clients/terminal/text_width.h"

namespace ringside::client {
namespace {

constexpr int kLineColumns = 60;
constexpr size_t kMostTitleBytes = 480;  // limit of a metadata value, with room for an ellipsis

const char* Heading(const std::string& role) {
  if (role == "user") return "You";
  return role == "assistant" ? "Assistant" : "System";
}

/// The images before a message's text.
std::string ImagesMarkdown(const InputMessage& message) {
  std::string text;
  for (size_t i = 0; i < message.images.size(); ++i) {
    text += "![Image " + std::to_string(i + 1) + "](" + message.images[i] + ")\n\n";
  }
  return text;
}

}  // namespace

std::string TranscriptMarkdown(const ConversationSummary& conversation, const std::vector<InputMessage>& items) {
  std::string text = "# " + (conversation.Title().empty() ? conversation.id : conversation.Title()) + "\n";
  const auto add = [&text](const std::string& role, const std::string& words) {
    text += std::string("\n## ") + Heading(role) + "\n\n" + words + "\n";
  };
  if (conversation.instructions) add("system", *conversation.instructions);
  for (const InputMessage& item : items) add(item.role, ImagesMarkdown(item) + item.text);
  return text;
}

std::string TranscriptJson(const ConversationSummary& conversation, const std::vector<InputMessage>& items) {
  using Json = nlohmann::ordered_json;
  Json json = {{"id", conversation.id},
               {"title", conversation.Title()},
               {"created_at", conversation.created_at},
               {"messages", Json::array()}};
  const auto add = [&json](const std::string& role, const std::string& words, bool complete) {
    json["messages"].push_back({{"role", role}, {"content", words}, {"complete", complete}});
  };
  if (conversation.instructions) add("system", *conversation.instructions, true);
  for (const InputMessage& item : items) {
    add(item.role, item.text, item.complete);
    if (!item.images.empty()) json["messages"].back()["images"] = item.images;
    if (!item.reasoning.empty()) json["messages"].back()["reasoning"] = item.reasoning;
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string TitleOf(std::string_view message) {
  const size_t begin = message.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos) return "";
  const std::string title = Sanitise(FirstLine(message.substr(begin)));
  return title.size() <= kMostTitleBytes ? title : "";
}

Outcome<Done> WriteNewFile(const std::string& path, const std::string& text) {
  std::string real = path;
  const char* home = std::getenv("HOME");
  if (path.starts_with("~/") && home != nullptr) real = home + path.substr(1);
  const int file = ::open(real.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0) {
    if (errno == EEXIST) return Failure{"The file " + path + " already exists; choose another name."};
    return Failure{"Cannot write " + path + ": " + std::strerror(errno) + "."};
  }
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t wrote = ::write(file, text.data() + done, text.size() - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) break;
    done += static_cast<size_t>(wrote);
  }
  const bool closed = ::close(file) == 0;
  if (done < text.size() || !closed) return Failure{"Cannot write all of " + path + ": " + std::strerror(errno) + "."};
  return Done{};
}

std::string WithImageCount(const InputMessage& message) {
  const size_t images = message.images.size();
  if (images == 0) return message.text;
  return "[" + (images == 1 ? "image" : std::to_string(images) + " images") + "] " + message.text;
}

std::string FirstLine(std::string_view text) {
  const size_t newline = text.find('\n');
  std::string_view line = text.substr(0, newline);
  size_t bytes = 0;
  int columns = 0;
  while (bytes < line.size()) {
    const size_t next = FirstCluster(line.substr(bytes));
    columns += ClusterWidth(line.substr(bytes, next));
    if (columns > kLineColumns) break;
    bytes += next;
  }
  const bool whole = bytes == text.size();
  return std::string(line.substr(0, bytes)) + (whole ? "" : "…");
}

}  // namespace ringside::client
