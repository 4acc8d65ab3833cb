#include "clients/chat/settings.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/json/json_tree.h"

namespace ringside::client {
namespace {

using Json = nlohmann::json;

constexpr double kNoLimit = std::numeric_limits<double>::infinity();

enum class Type { kNumber, kInteger, kTexts, kThinking };

struct Entry {
  const char* name;
  const char* wire_name;
  Type type;
  double least, most;
  const char* otherwise;  // effective value if neither the user nor the server sets one; null = chosen by the server,
                          // secret
  const char* meaning;
};

constexpr Entry kEntries[] = {
    {"temperature", "temperature", Type::kNumber, 0, 2, nullptr, "0 = always the likeliest token"},
    {"top_p", "top_p", Type::kNumber, 0, 1, nullptr, "sample from the likeliest tokens up to this total probability"},
    {"top_k", "top_k", Type::kInteger, 0, 1e9, nullptr, "sample from this number of likeliest tokens; 0 = all"},
    {"min_p", "min_p", Type::kNumber, 0, 1, nullptr, "drop tokens below this fraction of the likeliest one"},
    {"seed", "seed", Type::kInteger, -9.2e18, 9.2e18, "random", "the same seed gives the same answer"},
    {"max_tokens", "max_output_tokens", Type::kInteger, 1, 1e9, nullptr, "longest answer"},
    {"stop", "stop", Type::kTexts, 0, 0, "none", "text that ends an answer, or a JSON list of texts"},
    {"think", "reasoning", Type::kThinking, 0, 0, "auto", "how much the model reasons: off, on, low, high ..."},
    {"repetition_penalty", "repetition_penalty", Type::kNumber, 0, kNoLimit, "1", "1 = none"},
    {"presence_penalty", "presence_penalty", Type::kNumber, -2, 2, "0", "0 = none"},
    {"frequency_penalty", "frequency_penalty", Type::kNumber, -2, 2, "0", "0 = none"},
};

const Entry* FindEntry(const std::string& name) {
  for (const Entry& entry : kEntries) {
    if (name == entry.name || name == entry.wire_name) return &entry;
  }
  return nullptr;
}

std::string Shown(double number) {
  std::ostringstream text;
  text << number;
  return text.str();
}

Failure OutOfRange(const Entry& entry) {
  const std::string what = entry.type == Type::kInteger ? "a whole number" : "a number";
  std::string range = " from " + Shown(entry.least);
  if (entry.most != kNoLimit) range += " to " + Shown(entry.most);
  return Failure{std::string(entry.name) + " takes " + what +
                 (entry.type == Type::kInteger && entry.most > 1e18 ? "" : range) + "."};
}

template <class T>
bool ParseWhole(const std::string& text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

/// The request member "reasoning".
Outcome<std::string> Reasoning(const std::string& value) {
  static constexpr std::string_view kEfforts[] = {"minimal", "low", "medium", "high", "xhigh", "max"};
  if (value == "on") return std::string(R"({"enabled":true})");
  if (value == "off") return std::string(R"({"effort":"none"})");
  if (std::ranges::find(kEfforts, value) == std::end(kEfforts)) {
    return Failure{"think takes on, off, minimal, low, medium, high, xhigh or max."};
  }
  return R"({"effort":")" + value + R"("})";
}

Outcome<std::string> StopTexts(const std::string& value) {
  if (value.starts_with('[')) {
    const Json list = ParseJsonTree(value);
    bool good = list.is_array() && !list.empty();
    if (good) {
      for (const Json& text : list) good = good && text.is_string() && !text.get_ref<const std::string&>().empty();
    }
    if (!good) return Failure{"stop takes a text or a JSON list of texts, such as [\"END\", \"\\n\\n\"]."};
    return list.dump();
  }
  std::string text;
  for (size_t i = 0; i < value.size(); ++i) {
    if (value[i] == '\\' && i + 1 < value.size() && (value[i + 1] == 'n' || value[i + 1] == '\\')) {
      text += value[++i] == 'n' ? '\n' : '\\';
    } else {
      text += value[i];
    }
  }
  if (text.empty()) return Failure{"stop must not be empty."};
  return Json::array({text}).dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

Outcome<Done> Settings::Set(const std::string& name, const std::string& value) {
  const Entry* entry = FindEntry(name);
  if (entry == nullptr) {
    std::string names;
    for (const Entry& known : kEntries) names += std::string(names.empty() ? "" : ", ") + known.name;
    return Failure{"There is no setting \"" + name + "\". The settings are " + names + "."};
  }
  if (value == "default") {
    values_.erase(entry->name);
    return Done{};
  }
  if (entry->type == Type::kThinking) {
    const Outcome<std::string> reasoning = Reasoning(value);
    if (!reasoning) return reasoning.failure();
    values_[entry->name] = {value, *reasoning};
  } else if (entry->type == Type::kTexts) {
    const Outcome<std::string> texts = StopTexts(value);
    if (!texts) return texts.failure();
    values_[entry->name] = {value, *texts};
  } else if (entry->type == Type::kInteger) {
    int64_t number = 0;
    const bool good = ParseWhole(value, number) && static_cast<double>(number) >= entry->least &&
                      static_cast<double>(number) <= entry->most;
    if (!good) return OutOfRange(*entry);
    values_[entry->name] = {value, std::to_string(number)};
  } else {
    double number = 0;
    const bool good =
        ParseWhole(value, number) && std::isfinite(number) && number >= entry->least && number <= entry->most;
    if (!good) return OutOfRange(*entry);
    values_[entry->name] = {value, Json(number).dump()};
  }
  return Done{};
}

Outcome<Done> Settings::SetStops(const std::vector<std::string>& texts) {
  return Set("stop", Json(texts).dump(-1, ' ', false, Json::error_handler_t::replace));
}

std::vector<std::pair<std::string, std::string>> Settings::Fields() const {
  std::vector<std::pair<std::string, std::string>> fields;
  for (const Entry& entry : kEntries) {
    const auto value = values_.find(entry.name);
    if (value != values_.end()) fields.emplace_back(entry.wire_name, value->second.json);
  }
  return fields;
}

std::string Settings::Describe(const std::map<std::string, std::string>& defaults) const {
  std::string lines;
  for (const Entry& entry : kEntries) {
    const auto value = values_.find(entry.name);
    std::string line = std::string("  ") + entry.name;
    line.resize(std::max<size_t>(line.size() + 1, 22), ' ');
    const auto servers = defaults.find(entry.wire_name);
    line += value != values_.end()       ? value->second.json
            : servers != defaults.end()  ? servers->second + " (default)"
            : entry.otherwise != nullptr ? std::string(entry.otherwise) + " (default)"
                                         : "unknown (default)";
    line.resize(std::max<size_t>(line.size() + 1, 38), ' ');
    lines += line + entry.meaning + "\n";
  }
  lines.pop_back();
  return lines;
}

std::map<std::string, std::string> Settings::Given() const {
  std::map<std::string, std::string> given;
  for (const auto& [name, value] : values_) given[name] = value.given;
  return given;
}

std::vector<std::string> Settings::Names() {
  std::vector<std::string> names;
  for (const Entry& entry : kEntries) names.emplace_back(entry.name);
  return names;
}

}  // namespace ringside::client
