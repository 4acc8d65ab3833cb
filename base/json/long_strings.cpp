#include "base/json/long_strings.h"

namespace ringside {
namespace {

constexpr size_t kLong = 16 << 10;

bool IsPlain(std::string_view value) {
  unsigned char outside = 0;
  for (const char c : value) outside |= static_cast<unsigned char>(c < 0x20) | static_cast<unsigned char>(c == 0x7f);
  return outside == 0;  // bytes above 0x7f are negative
}

/// Where a byte occurs next. Positions only increase, so that the text is searched once.
class NextByte {
 public:
  NextByte(std::string_view text, char byte) : text_(text), byte_(byte), at_(text.find(byte)) {}
  size_t From(size_t position) {
    if (at_ < position) at_ = text_.find(byte_, position);
    return at_;
  }

 private:
  const std::string_view text_;
  const char byte_;
  size_t at_;
};

}  // namespace

ShortenedJson::ShortenedJson(std::string_view text) : text_(text) {
  if (text.size() < kLong) return;
  NextByte quotes(text, '"'), escapes(text, '\\');
  size_t copied = 0, at = 0;
  for (int64_t number = 0;; ++number) {
    const size_t open = quotes.From(at);
    if (open == text.npos) break;
    size_t close = quotes.From(open + 1), escape = escapes.From(open + 1);
    const bool plain = escape > close;
    while (escape < close) {  // the byte after a backslash closes nothing
      close = quotes.From(escape + 2);
      escape = escapes.From(escape + 2);
    }
    if (close == text.npos) break;
    at = close + 1;
    const std::string_view value = text.substr(open + 1, close - open - 1);
    if (!plain || value.size() < kLong || !IsPlain(value)) continue;
    shortened_ += text.substr(copied, open + 1 - copied);
    copied = close;
    taken_.push_back({number, shortened_.size(), value});
  }
  if (taken_.empty()) return;
  shortened_ += text.substr(copied);
  text_ = shortened_;
}

void ShortenedJson::Restore(std::string* value) {
  if (next_ < taken_.size() && taken_[next_].number == number_) value->assign(taken_[next_++].value);
  ++number_;
}

size_t ShortenedJson::OriginalPlace(size_t place) const {
  size_t original = place;
  for (const Taken& taken : taken_) {
    if (taken.place < place) original += taken.value.size();
  }
  return original;
}

}  // namespace ringside
