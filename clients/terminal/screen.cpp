#include "clients/terminal/screen.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "clients/terminal/sanitiser.h"
#include "clients/terminal/text_width.h"

namespace ringside::client {
namespace {

/// The leading clusters of a text that fit into `columns`.
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

std::string EscapeFor(unsigned style) {
  static constexpr std::pair<unsigned, const char*> kCodes[] = {
      {StyledText::kBold, ";1"},  {StyledText::kItalic, ";3"}, {StyledText::kStruck, ";9"},
      {StyledText::kCode, ";36"}, {StyledText::kLink, ";4"},   {StyledText::kHeading, ";1;35"},
      {StyledText::kQuiet, ";2"},
  };
  std::string codes;
  for (const auto& [part, code] : kCodes) {
    if ((style & part) != 0) codes += code;
  }
  return codes.empty() ? "" : "\x1b[" + codes.substr(1) + "m";
}

}  // namespace

bool WantsColour(ColourMode mode, bool is_terminal) {
  if (mode != ColourMode::kAuto) return mode == ColourMode::kAlways;
  const char* no_colour = std::getenv("NO_COLOR");
  return is_terminal && Terminal::UnderstandsEscapes() && (no_colour == nullptr || no_colour[0] == '\0');
}

Screen::Screen(Terminal& terminal, bool colour, bool escapes)
    : terminal_(terminal), colour_(colour), escapes_(escapes), flow_(escapes) {}

void Screen::Answer(const StyledText& piece) {
  if (piece.text.empty()) return;
  ClearBanner();
  terminal_.Write(flow_.Put(piece.text, colour_ ? EscapeFor(piece.style) : "", piece.hang, terminal_.size().columns));
}

void Screen::EndAnswer() {
  ClearBanner();
  if (flow_.column() > 0) terminal_.Write("\n");
  flow_.Reset();
}

std::string Screen::Wrapped(std::string_view text, bool with_tables) const {
  return WrapText(Sanitise(text), terminal_.size().columns, with_tables);
}

void Screen::Styled(std::string_view style, const std::string& wrapped) {
  EndAnswer();
  const bool styled = colour_ && !style.empty();
  terminal_.Write((styled ? std::string(style) : "") + wrapped + (styled ? "\x1b[0m\n" : "\n"));
}

void Screen::Line(std::string_view text) { Styled("", Wrapped(text, true)); }

void Screen::Notice(std::string_view text) { Styled("\x1b[2m", Wrapped(text, false)); }

void Screen::Said(std::string_view label, std::string_view text) {
  Styled("", prompt_style() + Sanitise(label) + plain_style() + Wrapped(text, false));
}

void Screen::Error(std::string_view text) { Styled("\x1b[31m", Wrapped(text, false)); }

void Screen::Verbatim(std::string_view text) { Styled("\x1b[2m", Sanitise(text)); }

void Screen::ShowBanner(std::string_view text) {
  if (!escapes_) {
    Notice(text);
    return;
  }
  ClearBanner();
  banner_ = true;
  banner_below_ = flow_.column() > 0;
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
    // If the last line is full, the cursor cannot be restored after its last column: start a new line.
    if (flow_.column() < terminal_.size().columns) {
      bytes += "\x1b[1A\r\x1b[" + std::to_string(flow_.column()) + "C";
    } else {
      flow_.Reset();
    }
  }
  terminal_.Write(bytes);
}

}  // namespace ringside::client
