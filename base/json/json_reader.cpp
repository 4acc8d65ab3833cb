#include "base/json/json_reader.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/json/long_strings.h"

namespace ringside {
namespace {

using Kind = JsonFault::Kind;

constexpr size_t kMaxFaultBytes = 200;

class LimitedEvents final : public nlohmann::json_sax<nlohmann::json> {
 public:
  LimitedEvents(const JsonLimits& limits, ShortenedJson& text, JsonHandler& handler)
      : limits_(limits), text_(text), handler_(handler) {}

  bool null() override { return Count() && Pass(handler_.Null()); }
  bool boolean(bool value) override { return Count() && Pass(handler_.Boolean(value)); }
  bool number_integer(number_integer_t value) override { return Count() && Pass(handler_.Negative(value)); }
  bool number_unsigned(number_unsigned_t value) override { return Count() && Pass(handler_.Unsigned(value)); }
  bool number_float(number_float_t value, const string_t& text) override {
    return Count() && Pass(handler_.Number(value, text));
  }
  bool string(string_t& value) override {
    text_.Restore(&value);
    return Count() && Pass(handler_.String(value));
  }
  bool binary(binary_t&) override { return Fail(Kind::kSyntax, "binary data"); }
  bool start_object(size_t) override { return Open() && Pass(handler_.OpenObject()); }
  bool end_object() override { return Close() && Pass(handler_.CloseObject()); }
  bool start_array(size_t) override { return Open() && Pass(handler_.OpenArray()); }
  bool end_array() override { return Close() && Pass(handler_.CloseArray()); }
  bool key(string_t& name) override {
    text_.Restore(&name);
    if (limits_.unique_names && !names_.back().insert(name).second) {
      return Fail(Kind::kRepeatedName, "'" + name + "' occurs twice");
    }
    return Pass(handler_.Name(name));
  }
  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception& exception) override {
    // In "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error ..." the last part is the
    // message.
    const std::string what = exception.what();
    const size_t colon = what.find(": ");
    return Fail(Kind::kSyntax, "at byte " + std::to_string(text_.OriginalPlace(position)) + ": " +
                                   (colon == std::string::npos ? "not JSON" : what.substr(colon + 2)));
  }

  bool Fail(Kind kind, std::string message) {
    if (fault_.ok()) fault_ = {kind, std::move(message)};
    return false;
  }
  JsonFault& fault() { return fault_; }

 private:
  bool Pass(bool continues) { return continues || Fail(Kind::kStopped, ""); }
  bool Count() {
    return ++values_ <= limits_.values ||
           Fail(Kind::kValues, "more than " + std::to_string(limits_.values) + " values");
  }
  bool Open() {
    if (depth_ >= limits_.depth) {
      return Fail(Kind::kDepth, "nested deeper than " + std::to_string(limits_.depth) + " levels");
    }
    ++depth_;
    if (limits_.unique_names) names_.emplace_back();
    return Count();
  }
  bool Close() {
    --depth_;
    if (limits_.unique_names) names_.pop_back();
    return true;
  }

  const JsonLimits& limits_;
  ShortenedJson& text_;
  JsonHandler& handler_;
  int64_t values_ = 0, depth_ = 0;
  std::vector<std::unordered_set<std::string>> names_;  // of each open object; empty sets for arrays
  JsonFault fault_;
};

}  // namespace

JsonFault ReadJson(std::string_view text, const JsonLimits& limits, JsonHandler& handler) {
  if (text.size() > static_cast<uint64_t>(limits.bytes)) {
    return {Kind::kBytes, "longer than " + std::to_string(limits.bytes) + " bytes"};
  }
  ShortenedJson shortened(text);
  LimitedEvents events(limits, shortened, handler);
  const std::string_view read = shortened.text();
  try {
    if (!nlohmann::json::sax_parse(read.begin(), read.end(), &events)) events.Fail(Kind::kSyntax, "not JSON");
  } catch (const nlohmann::json::exception& exception) {
    events.Fail(Kind::kSyntax, exception.what());
  }
  // The parser quotes its input: makes the message printable.
  std::string& message = events.fault().message;
  message.resize(std::min(message.size(), kMaxFaultBytes));
  for (char& c : message) {
    if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) > 0x7e) c = '?';
  }
  return std::move(events.fault());
}

}  // namespace ringside
