#include "clients/terminal/sanitiser.h"

#include <cstdint>
#include <utility>

#include "clients/terminal/text_width.h"

namespace ringside::client {
namespace {

bool IsSafe(uint32_t point) {
  if (point < 0x20) return point == '\n' || point == '\t';
  if (point >= 0x7F && point < 0xA0) return false;       // DEL, C1
  if (point == 0x2028 || point == 0x2029) return false;  // line and paragraph separator
  return !((point >= 0x202A && point <= 0x202E) || (point >= 0x2066 && point <= 0x2069));  // bidirectional controls
}

}  // namespace

std::string Sanitiser::Push(std::string_view text) { return Take(text, false); }

std::string Sanitiser::Finish() { return Take({}, true); }

std::string Sanitiser::Take(std::string_view text, bool last) {
  held_.append(text);
  std::string safe;
  std::string_view rest = held_;
  while (!rest.empty()) {
    const CodePoint point = DecodeUtf8(rest);
    if (point.cut && !last) break;
    if (IsSafe(point.value)) AppendUtf8(safe, point.value);
    rest.remove_prefix(point.bytes);
  }
  held_ = std::string(rest);
  return safe;
}

std::string Sanitise(std::string_view text) {
  Sanitiser sanitiser;
  std::string safe = sanitiser.Push(text);
  return safe += sanitiser.Finish();
}

}  // namespace ringside::client
