// Input history, oldest first, stored in a private file (mode 0600). Bounded. A file that cannot be read or written
// costs the history, never the chat. THREAD: one.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ringside::client {

class History {
 public:
  static constexpr size_t kMaxEntries = 1000;
  static constexpr size_t kMaxEntryBytes = 16 * 1024;  // longer entries (pasted files) are not stored

  /// An empty `path` disables the file.
  explicit History(std::string path = "");

  const std::vector<std::string>& entries() const { return entries_; }
  /// Stores an entry in memory and file unless it is blank, too long or equal to the last.
  void Add(const std::string& entry);
  /// If off, new entries are neither kept nor written.
  void set_on(bool on) { on_ = on; }
  bool on() const { return on_; }

 private:
  void Load();
  bool Rewrite() const;

  std::string path_;
  std::vector<std::string> entries_;
  bool on_ = true;
};

/// $XDG_STATE_HOME/ringside or ~/.local/state/ringside, created with mode 0700 if missing; "" if that fails.
std::string StateFolder();

}  // namespace ringside::client
