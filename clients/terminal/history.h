// What the user has typed before, oldest first, kept in a file of the user's alone (mode 0600). Bounded. A file that
// cannot be read or written costs the history, never the chat. One thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ringside::client {

class History {
 public:
  static constexpr size_t kMaxEntries = 1000;
  static constexpr size_t kMaxEntryBytes = 16 * 1024;  // longer ones (pasted files) are not remembered

  /// `path` empty: nothing is read or written.
  explicit History(std::string path = "");

  const std::vector<std::string>& entries() const { return entries_; }
  /// Remembers an entry, unless it is blank, too long or the same as the last; and writes it to the file.
  void Add(const std::string& entry);
  /// Off: new entries are neither remembered nor written.
  void set_on(bool on) { on_ = on; }
  bool on() const { return on_; }

 private:
  void Load();
  bool Rewrite() const;

  std::string path_;
  std::vector<std::string> entries_;
  bool on_ = true;
};

/// $XDG_STATE_HOME/ringside or ~/.local/state/ringside, made with mode 0700 if it is not there; "" if that fails.
std::string StateFolder();

}  // namespace ringside::client
