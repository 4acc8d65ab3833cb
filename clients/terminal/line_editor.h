// A line editor: keys in, an edited text and the bytes that show it out. Multi-line texts, history (Up and Down walk
// the entries that begin with what was typed, Ctrl-R searches), completion, word motions, kill and yank. Touches no
// terminal itself. One thread.
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
    kInterrupted,     // Ctrl-C: text() is what was dropped
    kEndOfInput,      // Ctrl-D on an empty text
    kShowCandidates,  // Tab with several completions: show candidates(), then Draw again
    kClearScreen,     // Ctrl-L: clear it, then Draw again
  };
  /// The whole texts that a text up to the cursor may become.
  using Completer = std::function<std::vector<std::string>(std::string_view)>;

  /// `history` outlives the editor.
  LineEditor(const History& history, Completer completer);

  /// Starts with an empty text. `style` and `plain` are escape sequences around the prompt, or empty.
  void Begin(std::string prompt, std::string continuation, std::string style = "", std::string plain = "");
  Result Handle(const Key& key);

  const std::string& text() const { return buffer_.text(); }
  size_t cursor() const { return buffer_.cursor(); }
  const std::vector<std::string>& candidates() const { return candidates_; }

  /// Bytes that bring the screen from what was drawn last to the present text. After Forget (or Begin) the cursor is
  /// taken to be at the left border of a free line.
  std::string Draw(ScreenSize size);
  /// Bytes that take the text off the screen; it is drawn afresh.
  std::string Hide(ScreenSize size);
  /// Bytes that put the cursor on a free line below the text; what follows is drawn afresh.
  std::string Leave(ScreenSize size);
  /// The screen was cleared: nothing is drawn.
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

  std::optional<size_t> at_;  // entry shown; none = the user's own text
  std::string own_text_;      // what the user typed before walking
  bool searching_ = false;
  std::string sought_;

  // What is on the screen: column counts of its rows, and the cursor.
  std::vector<int> drawn_widths_;
  size_t drawn_cursor_row_ = 0;
  int drawn_cursor_column_ = 0;
};

}  // namespace ringside::client
