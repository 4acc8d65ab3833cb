#include "clients/terminal/screen.h"

#include <algorithm>
#include <cstdlib>

#include "clients/terminal/sanitiser.h"
#include "clients/terminal/text_width.h"

namespace ringside::client {
namespace {

constexpr int kTabStop = 8;

/// The first clusters of a text that fit into so many columns.
std::string_view Fit(std::string_view text, int columns) {
  size_t bytes = 0;
  while (bytes < text.size()) {
    const size_t next = FirstCluster(text.substr(bytes));
    columns -= ClusterWidth(text.substr(bytes, next));
    if (columns < 0) break;
    bytes += next;
  }
  return text.substr(0, bytes);
}

}  // namespace

bool WantsColour(ColourMode mode, bool is_terminal) {
  if (mode != ColourMode::kAuto) return mode == ColourMode::kAlways;
  const char* no_colour = std::getenv("NO_COLOR");
  return is_terminal && Terminal::UnderstandsEscapes() && (no_colour == nullptr || no_colour[0] == '\0');
}

Screen::Screen(Terminal& terminal, bool colour, bool escapes)
    : terminal_(terminal), colour_(colour), escapes_(escapes) {}

void Screen::Answer(std::string_view text) {
  if (text.empty()) return;
  ClearBanner();
  terminal_.Write(text);
  const int columns = terminal_.size().columns;
  while (!text.empty()) {
    const size_t bytes = FirstCluster(text);
    const std::string_view cluster = text.substr(0, bytes);
    text.remove_prefix(bytes);
    if (cluster == "\n") {
      column_ = 0;
    } else if (cluster == "\t") {
      column_ = std::min((column_ / kTabStop + 1) * kTabStop, columns - 1);
    } else {
      const int width = ClusterWidth(cluster);
      column_ = column_ + width > columns ? width : column_ + width;
    }
  }
}

void Screen::EndAnswer() {
  ClearBanner();
  if (column_ > 0) terminal_.Write("\n");
  column_ = 0;
}

void Screen::Styled(std::string_view style, std::string_view text) {
  EndAnswer();
  std::string line = Sanitise(text);
  if (colour_ && !style.empty()) line = std::string(style) + line + "\x1b[0m";
  terminal_.Write(line + "\n");
}

void Screen::Line(std::string_view text) { Styled("", text); }

void Screen::Notice(std::string_view text) { Styled("\x1b[2m", text); }

void Screen::Error(std::string_view text) { Styled("\x1b[31m", text); }

void Screen::ShowBanner(std::string_view text) {
  if (!escapes_) {
    Notice(text);
    return;
  }
  ClearBanner();
  banner_ = true;
  banner_below_ = column_ > 0;
  std::string line = banner_below_ ? "\n" : "";
  if (colour_) line += "\x1b[33m";
  line += Fit(Sanitise(text), terminal_.size().columns - 1);
  if (colour_) line += "\x1b[0m";
  terminal_.Write(line);
}

void Screen::ClearBanner() {
  if (!banner_) return;
  banner_ = false;
  std::string bytes = "\r\x1b[K";
  if (banner_below_) {
    // Behind a full last line the cursor waits at the border; it cannot be put back there, so a new line begins.
    if (column_ < terminal_.size().columns) {
      bytes += "\x1b[1A\r\x1b[" + std::to_string(column_) + "C";
    } else {
      column_ = 0;
    }
  }
  terminal_.Write(bytes);
}

}  // namespace ringside::client
