#include "clients/terminal/history.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace ringside::client {
namespace {

/// One entry per line: a newline is escaped as \n, a backslash as \\.
std::string Escape(const std::string& entry) {
  std::string line;
  for (const char c : entry) {
    if (c == '\n') {
      line += "\\n";
    } else if (c == '\\') {
      line += "\\\\";
    } else {
      line += c;
    }
  }
  return line + "\n";
}

std::string Unescape(const std::string& line) {
  std::string entry;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\\' && i + 1 < line.size()) {
      ++i;
      entry += line[i] == 'n' ? '\n' : line[i];
    } else {
      entry += line[i];
    }
  }
  return entry;
}

bool WriteAll(int file, const std::string& text) {
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t wrote = ::write(file, text.data() + done, text.size() - done);
    if (wrote <= 0) return false;
    done += static_cast<size_t>(wrote);
  }
  return true;
}

bool WriteFile(const std::string& path, int flags, const std::string& text) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0600);
  if (file < 0) return false;
  ::fchmod(file, 0600);
  const bool written = WriteAll(file, text);
  return ::close(file) == 0 && written;
}

}  // namespace

History::History(std::string path) : path_(std::move(path)) {
  if (!path_.empty()) Load();
}

void History::Load() {
  std::ifstream file(path_);
  std::string line;
  size_t lines = 0;
  while (std::getline(file, line)) {
    ++lines;
    if (!line.empty()) entries_.push_back(Unescape(line));
  }
  if (entries_.size() > kMaxEntries) entries_.erase(entries_.begin(), entries_.end() - kMaxEntries);
  // The file is append-only; at twice the entry limit it is rewritten.
  if (lines > 2 * kMaxEntries) Rewrite();
}

bool History::Rewrite() const {
  std::string text;
  for (const std::string& entry : entries_) text += Escape(entry);
  const std::string next = path_ + ".new";
  return WriteFile(next, O_TRUNC, text) && std::rename(next.c_str(), path_.c_str()) == 0;
}

void History::Add(const std::string& entry) {
  const bool blank = entry.find_first_not_of(" \t\n") == std::string::npos;
  if (!on_ || blank || entry.size() > kMaxEntryBytes || (!entries_.empty() && entries_.back() == entry)) return;
  entries_.push_back(entry);
  if (entries_.size() > kMaxEntries) entries_.erase(entries_.begin());
  if (!path_.empty()) WriteFile(path_, O_APPEND, Escape(entry));
}

std::string StateFolder() {
  const char* state = std::getenv("XDG_STATE_HOME");
  const char* home = std::getenv("HOME");
  std::filesystem::path folder;
  if (state != nullptr && state[0] == '/') {
    folder = state;
  } else if (home != nullptr && home[0] == '/') {
    folder = std::filesystem::path(home) / ".local/state";
  } else {
    return "";
  }
  folder /= "ringside";
  std::error_code error;
  if (std::filesystem::create_directories(folder, error)) ::chmod(folder.c_str(), 0700);
  return std::filesystem::is_directory(folder, error) ? folder.string() : "";
}

}  // namespace ringside::client
