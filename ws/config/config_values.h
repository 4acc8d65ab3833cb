// Parsers for option values: numbers within bounds, words, switches. Each function returns a ConfigOption::apply;
// errors describe the fault without the setting's name. Pure.
// THREAD: any.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ws/config/config.h"

namespace ringside {

using Values = std::vector<std::string>;
using ApplyValues = std::function<Status(ServerConfig&, const Values&)>;

Status BadValue(const std::string& text, const std::string& wanted);
Result<int64_t> ParseInteger(const std::string& text, int64_t least, int64_t most);
Result<double> ParseReal(const std::string& text, double least, double most);
Result<bool> ParseSwitch(const std::string& text);

template <class Field>
ApplyValues Integer(Field ServerConfig::*field, int64_t least, int64_t most) {
  return [=](ServerConfig& config, const Values& values) {
    ASSIGN_OR_RETURN(config.*field, ParseInteger(values.back(), least, most));
    return Status::Ok();
  };
}

ApplyValues Real(std::optional<double> ServerConfig::*field, double least, double most);
/// Seconds with optional fraction, stored as milliseconds.
ApplyValues Milliseconds(int64_t ServerConfig::*field, double most_s);
/// Any text that is not empty.
ApplyValues Text(std::string ServerConfig::*field);
ApplyValues Switch(bool ServerConfig::*field);

/// One of a fixed set of words. The field is a T, or an optional one.
template <class T, class Field>
ApplyValues Choice(Field ServerConfig::*field, std::vector<std::pair<std::string, T>> choices) {
  return [field, choices = std::move(choices)](ServerConfig& config, const Values& values) {
    std::string names;
    for (const auto& [name, value] : choices) {
      if (name == values.back()) {
        config.*field = value;
        return Status::Ok();
      }
      names += (names.empty() ? "" : ", ") + name;
    }
    return BadValue(values.back(), "one of " + names);
  };
}

}  // namespace ringside
