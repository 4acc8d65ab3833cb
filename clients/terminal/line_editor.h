// A line editor: turns keys into edited text and the bytes that display it. Multi-line text, history (Up and Down visit
// entries with the typed prefix, Ctrl-R searches), completion, word motions, kill and yank. Does no terminal I/O.
// THREAD: one.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "clients/terminal/history.h"
#include "clients/terminal/key_decoder.h"
#include "clients/terminal/line_buffer.h"
#include "clients/terminal/line_layout.h"

namespace ringside::client {

struct ScreenSize {
  int columns = 80, rows = 24;
};

class LineEditor {
 public:
  enum class Result {
    kEditing,
    kAccepted,        // Enter: text() is the input
    kInterrupted,     // Ctrl-C: text() is the discarded input
    kEndOfInput,      // Ctrl-D on an empty text
    kShowCandidates,  // Tab with several completions: show candidates(), then call Draw
    kClearScreen,     // Ctrl-L: clear the screen, then call Draw
  };
  /// Returns the full texts that complete the text before the cursor.
  using Completer = std::function<std::vector<std::string>(std::string_view)>;

  /// REQUIRES: `history` outlives the editor.
  LineEditor(const History& history, Completer completer);

  /// Starts with an empty text. `style` and `plain` are escape sequences around the prompt, or empty.
  void Begin(std::string prompt, std::string continuation, std::string style = "", std::string plain = "");
  Result Handle(const Key& key);

  const std::string& text() const { return buffer_.text(); }
  size_t cursor() const { return buffer_.cursor(); }
  const std::vector<std::string>& candidates() const { return candidates_; }

  /// Returns the bytes that update the screen from the last drawing to the current text. After Forget or Begin the
  /// cursor is assumed to be at the left edge of an empty line.
  std::string Draw(ScreenSize size);
  /// Returns the bytes that erase the text; the next Draw starts over.
  std::string Hide(ScreenSize size);
  /// Returns the bytes that move the cursor to an empty line below the text; the next Draw starts over.
  std::string Leave(ScreenSize size);
  /// The screen was cleared: forget the last drawing.
  void Forget() { drawn_widths_.clear(); }

 private:
  Result HandleControl(char letter);
  Result HandleSearch(const Key& key, bool& used);
  void Edited();
  void WalkHistory(int step);
  void Search(size_t below);
  Result Complete();
  std::string EraseDrawn(int columns) const;

  const History& history_;
  const Completer completer_;
  LineBuffer buffer_;
  std::string prompt_, continuation_, style_, plain_;
  std::vector<std::string> candidates_;

  std::optional<size_t> at_;  // history entry shown; none = the user's text
  std::string own_text_;      // the user's text before browsing the history
  bool searching_ = false;
  std::string sought_;

  // The last drawing: widths of its rows, and the cursor.
  std::vector<int> drawn_widths_;
  size_t drawn_cursor_row_ = 0;
  int drawn_cursor_column_ = 0;
};

}  // namespace ringside::client
