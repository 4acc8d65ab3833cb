#include "clients/terminal/key_decoder.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "clients/terminal/text_width.h"

namespace ringside::client {
namespace {

using Code = Key::Code;
constexpr std::string_view kPasteEnd = "\x1b[201~";
constexpr size_t kLongestSequence = 32;

std::optional<Code> CodeOfLetter(char letter, bool with_modifier) {
  switch (letter) {
    case 'A':
      return Code::kUp;
    case 'B':
      return Code::kDown;
    case 'C':
      return with_modifier ? Code::kWordRight : Code::kRight;
    case 'D':
      return with_modifier ? Code::kWordLeft : Code::kLeft;
    case 'H':
      return Code::kHome;
    case 'F':
      return Code::kEnd;
    default:
      return std::nullopt;
  }
}

std::optional<Code> CodeOfNumber(std::string_view number) {
  if (number == "1" || number == "7") return Code::kHome;
  if (number == "4" || number == "8") return Code::kEnd;
  if (number == "3") return Code::kDelete;
  return std::nullopt;
}

/// Converts newlines to \n, keeps tabs, drops other control characters and replaces invalid bytes.
std::string CleanPaste(std::string_view text) {
  std::string clean;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c == '\r') {
      if (i + 1 >= text.size() || text[i + 1] != '\n') clean += '\n';
    } else if (c >= 0x20 ? c != 0x7F : c == '\n' || c == '\t') {
      clean += static_cast<char>(c);
    }
  }
  return RepairUtf8(clean);
}

}  // namespace

std::vector<Key> KeyDecoder::Push(std::string_view bytes) {
  std::vector<Key> keys;
  pending_.append(bytes);
  while (!pending_.empty() && (in_paste_ ? TakePaste(keys) : DecodeOne(keys))) {
  }
  return keys;
}

bool KeyDecoder::TakePaste(std::vector<Key>& keys) {
  const size_t end = pending_.find(kPasteEnd);
  if (end == std::string::npos) return false;
  keys.push_back({Code::kPaste, CleanPaste(std::string_view(pending_).substr(0, end))});
  pending_.erase(0, end + kPasteEnd.size());
  in_paste_ = false;
  return true;
}

bool KeyDecoder::DecodeOne(std::vector<Key>& keys) {
  const auto first = static_cast<unsigned char>(pending_[0]);
  if (first == 0x1B) return DecodeEscape(keys);
  if (first >= 0x20 && first != 0x7F) {
    const CodePoint point = DecodeUtf8(pending_);
    if (point.cut) return false;
    std::string text;
    AppendUtf8(text, point.value);
    const bool is_c1 = point.value >= 0x80 && point.value < 0xA0;
    if (!is_c1) keys.push_back({Code::kText, std::move(text)});
    pending_.erase(0, point.bytes);
    return true;
  }
  pending_.erase(0, 1);
  if (first == '\r' || first == '\n') {
    keys.push_back({Code::kEnter});
  } else if (first == '\t') {
    keys.push_back({Code::kTab});
  } else if (first == 0x7F || first == 0x08) {
    keys.push_back({Code::kBackspace});
  } else if (first >= 1 && first <= 26) {
    keys.push_back({Code::kControl, std::string(1, static_cast<char>('A' + first - 1))});
  }
  return true;
}

bool KeyDecoder::DecodeEscape(std::vector<Key>& keys) {
  if (pending_.size() < 2) return false;
  const char second = pending_[1];
  if (second != '[' && second != 'O') {
    pending_.erase(0, 2);
    if (second == 'b' || second == 'B') keys.push_back({Code::kWordLeft});
    if (second == 'f' || second == 'F') keys.push_back({Code::kWordRight});
    if (second == 'd' || second == 'D') keys.push_back({Code::kDeleteWordRight});
    if (second == '\r' || second == '\n') keys.push_back({Code::kNewline});
    if (second == 0x7F || second == 0x08) keys.push_back({Code::kControl, "W"});
    return true;
  }
  size_t end = 2;  // index of the sequence's final byte
  const size_t known = std::min(pending_.size(), kLongestSequence);
  while (end < known && (pending_[end] < 0x40 || pending_[end] > 0x7E)) ++end;
  if (end >= kLongestSequence) {
    pending_.erase(0, 1);  // not a sequence: drop the escape and continue
    return true;
  }
  if (end >= known) return false;
  const std::string parameters = pending_.substr(2, end - 2);
  const char final_byte = pending_[end];
  pending_.erase(0, end + 1);
  const size_t semicolon = parameters.find(';');
  const std::string number = parameters.substr(0, semicolon);
  const bool with_modifier = semicolon != std::string::npos;
  if (final_byte == '~' && number == "200") {
    in_paste_ = true;
  } else if (const auto code = final_byte == '~' ? CodeOfNumber(number) : CodeOfLetter(final_byte, with_modifier)) {
    keys.push_back({*code});
  }
  return true;
}

}  // namespace ringside::client
