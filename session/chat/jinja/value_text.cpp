// Values as text: Python's str(), repr() and json.dumps().
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "engine/text/unicode.h"
#include "engine/text/unicode_case.h"
#include "session/chat/jinja/value.h"

namespace ringside::jinja {
namespace {

void AppendHex(uint32_t value, int digits, std::string* out) {
  for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4) *out += "0123456789abcdef"[value >> shift & 15];
}

std::string RepresentText(std::string_view text) {
  const char quote = text.find('\'') != std::string_view::npos && text.find('"') == std::string_view::npos ? '"' : '\'';
  std::string out(1, quote);
  for (size_t i = 0; i < text.size();) {
    const CodePoint c = FirstCodePoint(text.substr(i));
    if (c.value == static_cast<uint32_t>(quote) || c.value == '\\') {
      out += '\\';
      out += static_cast<char>(c.value);
    } else if (c.value == '\n' || c.value == '\r' || c.value == '\t') {
      out += c.value == '\n' ? "\\n" : c.value == '\r' ? "\\r" : "\\t";
    } else if (!IsPrintable(c.value)) {
      out += c.value < 0x100 ? "\\x" : c.value < 0x10000 ? "\\u" : "\\U";
      AppendHex(c.value, c.value < 0x100 ? 2 : c.value < 0x10000 ? 4 : 8, &out);
    } else {
      out.append(text, i, c.length);
    }
    i += c.length;
  }
  return out + quote;
}

Result<std::string> RepresentSequence(const SequenceValue& sequence) {
  if (!sequence.indexed()) return InvalidArgument("a generator or a view cannot be printed; convert it to a list");
  const bool tuple = sequence.kind == SequenceValue::Kind::kTuple;
  std::string out = tuple ? "(" : "[";
  for (size_t i = 0; i < sequence.items.size(); ++i) {
    ASSIGN_OR_RETURN(const std::string item, Represent(sequence.items[i]));
    out += (i > 0 ? ", " : "") + item;
  }
  if (tuple && sequence.items.size() == 1) out += ',';
  return out + (tuple ? ")" : "]");
}

Result<std::string> RepresentMapping(const MappingValue& mapping) {
  std::string out = "{";
  for (const auto& [key, value] : mapping.entries) {
    ASSIGN_OR_RETURN(const std::string name, Represent(key));
    ASSIGN_OR_RETURN(const std::string text, Represent(value));
    out += (out.size() > 1 ? ", " : "") + name + ": " + text;
  }
  return out + "}";
}

void AppendJsonText(std::string_view text, bool ascii, std::string* out) {
  constexpr std::string_view kShort = "\"\\\n\r\t\f\b", kLetters = "\"\\nrtfb";
  *out += '"';
  for (size_t i = 0; i < text.size();) {
    const CodePoint c = FirstCodePoint(text.substr(i));
    if (const size_t at = c.length == 1 ? kShort.find(text[i]) : kShort.npos; at != kShort.npos) {
      *out += '\\';
      *out += kLetters[at];
    } else if (c.value >= 0x20 && (!ascii || c.value < 0x7F)) {
      out->append(text, i, c.length);
    } else if (c.value < 0x10000) {
      *out += "\\u";
      AppendHex(c.value, 4, out);
    } else {
      *out += "\\u";
      AppendHex(0xD800 + ((c.value - 0x10000) >> 10), 4, out);
      *out += "\\u";
      AppendHex(0xDC00 + ((c.value - 0x10000) & 0x3FF), 4, out);
    }
    i += c.length;
  }
  *out += '"';
}

class JsonWriter {
 public:
  explicit JsonWriter(const JsonStyle& style) : style_(style) {}

  Status Write(const Value& value) {
    if (value.IsNone()) {
      out_ += "null";
    } else if (value.IsBool()) {
      out_ += value.Truth() ? "true" : "false";
    } else if (value.IsInteger()) {
      out_ += std::to_string(value.Integer());
    } else if (value.IsFloat()) {
      out_ += Float(value.Number());
    } else if (value.IsText()) {
      AppendJsonText(value.Text(), style_.ascii, &out_);
    } else if (const MappingValue* mapping = value.AsMapping()) {
      return WriteMapping(*mapping);
    } else if (const SequenceValue* sequence = value.AsSequence(); sequence != nullptr && sequence->indexed()) {
      return WriteList(*sequence);
    } else {
      return InvalidArgument(std::string("no JSON can be made of ") + value.TypeName());
    }
    return Status::Ok();
  }

  std::string Take() { return std::move(out_); }

 private:
  static std::string Float(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
    return FloatText(value);
  }

  Status WriteList(const SequenceValue& list) {
    out_ += '[';
    ++level_;
    for (size_t i = 0; i < list.items.size(); ++i) {
      if (i > 0) out_ += style_.item_separator;
      NewLine();
      RETURN_IF_ERROR(Write(list.items[i]));
    }
    --level_;
    if (!list.items.empty()) NewLine();
    out_ += ']';
    return Status::Ok();
  }

  Status WriteMapping(const MappingValue& mapping) {
    std::vector<const std::pair<Value, Value>*> entries;
    for (const auto& entry : mapping.entries) entries.push_back(&entry);
    if (style_.sort_keys) {
      if (!std::ranges::all_of(entries, [](const auto* entry) { return entry->first.IsText(); })) {
        return InvalidArgument("keys cannot be sorted unless all are strings");
      }
      std::ranges::stable_sort(entries, {}, [](const auto* entry) { return std::string_view(entry->first.Text()); });
    }
    out_ += '{';
    ++level_;
    for (size_t i = 0; i < entries.size(); ++i) {
      if (i > 0) out_ += style_.item_separator;
      NewLine();
      const Value& key = entries[i]->first;
      if (key.IsText()) {
        RETURN_IF_ERROR(Write(key));
      } else if (!key.IsNumber() && !key.IsNone()) {
        return InvalidArgument(std::string("JSON has no keys of type ") + key.TypeName());
      } else {
        out_ += '"';
        RETURN_IF_ERROR(Write(key));
        out_ += '"';
      }
      out_ += style_.key_separator;
      RETURN_IF_ERROR(Write(entries[i]->second));
    }
    --level_;
    if (!entries.empty()) NewLine();
    out_ += '}';
    return Status::Ok();
  }

  void NewLine() {
    if (style_.indent >= 0) out_.append("\n").append(level_ * static_cast<size_t>(style_.indent), ' ');
  }

  const JsonStyle& style_;
  size_t level_ = 0;
  std::string out_;
};

}  // namespace

std::string FloatText(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  // The shortest digits that parse to the same number, formatted as in Python.
  std::array<char, 64> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::scientific);
  const std::string_view text(buffer.data(), static_cast<size_t>(end.ptr - buffer.data()));
  const size_t e = text.find('e');
  const int exponent = std::stoi(std::string(text.substr(e + 1)));
  if (exponent < -4 || exponent >= 16) {
    std::string out(text.substr(0, e));
    const int size = std::abs(exponent);
    return out + (exponent < 0 ? "e-" : "e+") + (size < 10 ? "0" : "") + std::to_string(size);
  }
  const auto fixed = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::fixed);
  std::string out(buffer.data(), fixed.ptr);
  return out.find('.') == std::string::npos ? out + ".0" : out;
}

Result<std::string> Represent(const Value& value) {
  if (value.IsUndefined()) return std::string("Undefined");
  return value.IsText() ? RepresentText(value.Text()) : ToText(value);
}

Result<std::string> ToText(const Value& value) {
  if (value.IsUndefined()) return std::string();
  if (value.IsNone()) return std::string("None");
  if (value.IsBool()) return std::string(value.Truth() ? "True" : "False");
  if (value.IsInteger()) return std::to_string(value.Integer());
  if (value.IsFloat()) return FloatText(value.Number());
  if (value.IsText()) return value.Text();
  if (const SequenceValue* sequence = value.AsSequence()) return RepresentSequence(*sequence);
  if (const MappingValue* mapping = value.AsMapping()) return RepresentMapping(*mapping);
  return InvalidArgument(std::string("a value of type ") + value.TypeName() + " has no text");
}

Result<std::string> ToJson(const Value& value, const JsonStyle& style) {
  JsonWriter writer(style);
  RETURN_IF_ERROR(writer.Write(value));
  return writer.Take();
}

}  // namespace ringside::jinja
