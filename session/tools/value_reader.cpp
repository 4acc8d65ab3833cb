#include "session/tools/value_reader.h"

#include <algorithm>
#include <array>
#include <utility>

#include "engine/grammar/schema/json_text.h"

namespace ringside {
namespace {

constexpr size_t kMaxNesting = 256;   // lists and objects
constexpr size_t kMaxWordBytes = 64;  // of a number or a name
constexpr std::string_view kGemmaQuote = "<|\"|>";

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsHex(char c) { return IsDigit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }
bool IsBlank(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }
bool IsWordByte(char c) {
  return IsDigit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '+' || c == '-' || c == '.';
}

/// JSON's number grammar, with exponents that every JSON parser accepts.
bool IsNumber(std::string_view text) {
  const auto digits = [&] {
    const size_t count = std::min(text.find_first_not_of("0123456789"), text.size());
    text.remove_prefix(count);
    return count;
  };
  if (text.starts_with('-')) text.remove_prefix(1);
  if (text.starts_with('0') ? (text.remove_prefix(1), false) : digits() == 0) return false;
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    if (digits() == 0) return false;
  }
  if (text.starts_with('e') || text.starts_with('E')) {
    text.remove_prefix(1);
    if (text.starts_with('-') || text.starts_with('+')) text.remove_prefix(1);
    const size_t count = digits();
    if (count == 0 || count > 2) return false;
  }
  return text.empty();
}

/// Converts a name or a number to JSON; "" if it is neither.
std::string_view WordAsJson(std::string_view word, bool python) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kPython = {
      {{"True", "true"}, {"False", "false"}, {"None", "null"}}};
  for (const auto& [name, json] : kPython) {
    if (word == json || (python && word == name)) return json;
  }
  return IsNumber(word) ? word : std::string_view();
}

}  // namespace

void AppendEscaped(char c, std::string* json) {
  if (static_cast<unsigned char>(c) >= 0x20 && c != '"' && c != '\\') {
    *json += c;
    return;
  }
  const std::string escaped = JsonString({&c, 1});
  json->append(escaped, 1, escaped.size() - 2);
}

bool EndFinder::Read(char c, std::string* passed) {
  held_ += c;
  while (!end_.starts_with(held_)) {
    *passed += held_.front();
    held_.erase(0, 1);
  }
  if (held_.size() < end_.size()) return false;
  held_.clear();
  return true;
}

bool ValueReader::bare_keys() const {
  return form_ == Form::kGemma || (form_ == Form::kPython && arguments_ && open_.size() == 1);
}

ValueReader::Next ValueReader::Read(char c, std::string* json) {
  switch (state_) {
    case State::kValue:
    case State::kFirstValue:
      return BeginValue(c, json);
    case State::kFirstKey:
    case State::kKey:
      return BeginKey(c, json);
    case State::kBareKey:
      return ReadBareKey(c, json);
    case State::kColon:
    case State::kComma:
      return ReadSeparator(c, json);
    case State::kString:
      return ReadString(c, json);
    case State::kEscape:
      return ReadEscape(c, json);
    case State::kUnicode:
      return ReadUnicode(c, json);
    case State::kQuote:
      word_ += c;
      if (!kGemmaQuote.starts_with(word_)) return Next::kInvalidByte;
      if (word_ == kGemmaQuote) state_ = State::kString;
      return Next::kMore;
    case State::kWord:
      return ReadWord(c, json);
    case State::kEnded:
      break;
  }
  return Next::kInvalidByte;
}

ValueReader::Next ValueReader::BeginValue(char c, std::string* json) {
  if (IsBlank(c)) return Next::kMore;
  const bool whole = arguments_ && open_.empty();
  if (c == '{' || c == '[' || c == '(') return Open(c, json);
  if (whole) return Next::kInvalidByte;
  if (c == ']' && state_ == State::kFirstValue) return Close(c, json);
  if (!IsWordByte(c)) return BeginString(c, json);
  word_ = c;
  state_ = State::kWord;
  return Next::kMore;
}

ValueReader::Next ValueReader::Open(char c, std::string* json) {
  const bool whole = arguments_ && open_.empty();
  if (c == '(' && !(whole && form_ == Form::kPython)) return Next::kInvalidByte;
  if (whole && c != (form_ == Form::kPython ? '(' : '{')) return Next::kInvalidByte;
  if (open_.size() == kMaxNesting) return Next::kInvalidByte;
  open_ += c == '(' ? ')' : c == '{' ? '}' : ']';
  state_ = c == '[' ? State::kFirstValue : State::kFirstKey;
  *json += c == '[' ? '[' : '{';
  return Next::kMore;
}

ValueReader::Next ValueReader::Close(char c, std::string* json) {
  if (open_.empty() || c != open_.back()) return Next::kInvalidByte;
  *json += c == ')' ? '}' : c;
  open_.pop_back();
  return EndValue();
}

ValueReader::Next ValueReader::EndValue() {
  state_ = open_.empty() ? State::kEnded : State::kComma;
  return open_.empty() ? Next::kDone : Next::kMore;
}

ValueReader::Next ValueReader::BeginKey(char c, std::string* json) {
  if (IsBlank(c)) return Next::kMore;
  if (state_ == State::kFirstKey && (c == '}' || c == ')')) return Close(c, json);
  in_key_ = true;
  if (!bare_keys()) return BeginString(c, json);
  word_ = c;
  state_ = State::kBareKey;
  return IsBareKey(word_) ? Next::kMore : Next::kInvalidByte;
}

ValueReader::Next ValueReader::ReadBareKey(char c, std::string* json) {
  if (!IsBlank(c) && c != ':' && c != '=') {
    word_ += c;
    return IsBareKey(word_) ? Next::kMore : Next::kInvalidByte;
  }
  *json += JsonString(word_);
  in_key_ = false;
  state_ = State::kColon;
  return ReadSeparator(c, json);
}

ValueReader::Next ValueReader::ReadSeparator(char c, std::string* json) {
  if (IsBlank(c)) return Next::kMore;
  if (state_ == State::kColon) {
    const bool keyword = form_ == Form::kPython && bare_keys();
    if (c != (keyword ? '=' : ':')) return Next::kInvalidByte;
    *json += ": ";
    state_ = State::kValue;
    return Next::kMore;
  }
  if (c != ',') return Close(c, json);
  *json += ", ";
  state_ = open_.back() == ']' ? State::kValue : State::kKey;
  return Next::kMore;
}

ValueReader::Next ValueReader::BeginString(char c, std::string* json) {
  const bool gemma = form_ == Form::kGemma;
  if (c != (gemma ? '<' : '"') && !(form_ == Form::kPython && c == '\'')) return Next::kInvalidByte;
  quote_ = c;
  word_ = c;
  state_ = gemma ? State::kQuote : State::kString;
  *json += '"';
  return Next::kMore;
}

ValueReader::Next ValueReader::ReadString(char c, std::string* json) {
  bool ends = false;
  if (form_ == Form::kGemma) {
    std::string passed;
    ends = gemma_end_.Read(c, &passed);
    for (const char byte : passed) AppendEscaped(byte, json);
  } else {
    if (high_half_ && c != '\\') return Next::kInvalidByte;
    ends = c == quote_;
    if (c == '\\') {
      state_ = State::kEscape;
    } else if (!ends) {
      AppendEscaped(c, json);
    }
  }
  if (!ends) return Next::kMore;
  *json += '"';
  if (!std::exchange(in_key_, false)) return EndValue();
  state_ = State::kColon;
  return Next::kMore;
}

ValueReader::Next ValueReader::ReadEscape(char c, std::string* json) {
  constexpr std::string_view kEscapes = "\"\\/bfnrt";
  if (c == 'u') {
    word_.clear();
    state_ = State::kUnicode;
    return Next::kMore;
  }
  if (high_half_) return Next::kInvalidByte;
  state_ = State::kString;
  if (c == '\'' && form_ == Form::kPython) {
    *json += c;
    return Next::kMore;
  }
  if (kEscapes.find(c) == std::string_view::npos) return Next::kInvalidByte;
  json->append({'\\', c});
  return Next::kMore;
}

// Writes the digits once all are present, so that no invalid escape is started.
ValueReader::Next ValueReader::ReadUnicode(char c, std::string* json) {
  if (!IsHex(c)) return Next::kInvalidByte;
  word_ += c;
  if (word_.size() < 4) return Next::kMore;
  const bool surrogate = word_[0] == 'd' || word_[0] == 'D';
  const bool high =
      surrogate && (word_[1] == '8' || word_[1] == '9' || (word_[1] | 0x20) == 'a' || (word_[1] | 0x20) == 'b');
  const bool low = surrogate && !high && word_[1] >= 'A';
  if (low != high_half_) return Next::kInvalidByte;
  high_half_ = high;
  json->append("\\u").append(word_);
  state_ = State::kString;
  return Next::kMore;
}

ValueReader::Next ValueReader::ReadWord(char c, std::string* json) {
  if (IsWordByte(c)) {
    word_ += c;
    return word_.size() <= kMaxWordBytes ? Next::kMore : Next::kInvalidByte;
  }
  const std::string_view value = WordAsJson(word_, form_ == Form::kPython);
  if (value.empty()) return Next::kInvalidByte;
  *json += value;
  if (EndValue() == Next::kDone) return Next::kBehind;
  return ReadSeparator(c, json);
}

}  // namespace ringside
