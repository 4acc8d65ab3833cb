#include "clients/chat/transcript.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "clients/terminal/text_width.h"

namespace ringside::client {
namespace {

constexpr int kLineColumns = 60;

const char* Heading(const std::string& role) {
  if (role == "user") return "You";
  return role == "assistant" ? "Assistant" : "System";
}

}  // namespace

std::string TranscriptMarkdown(const std::string& conversation, const std::vector<InputMessage>& items) {
  std::string text = "# " + (conversation.empty() ? "Conversation" : conversation) + "\n";
  for (const InputMessage& item : items) {
    text += std::string("\n## ") + Heading(item.role) + "\n\n" + item.text + "\n";
  }
  return text;
}

Outcome<Done> SaveTranscript(const std::string& path, const std::string& conversation,
                             const std::vector<InputMessage>& items) {
  std::string real = path;
  const char* home = std::getenv("HOME");
  if (path.starts_with("~/") && home != nullptr) real = home + path.substr(1);
  const int file = ::open(real.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0) {
    if (errno == EEXIST) return Failure{"There is a file " + path + " already; name another."};
    return Failure{"Cannot write " + path + ": " + std::strerror(errno) + "."};
  }
  const std::string text = TranscriptMarkdown(conversation, items);
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
