#include "ws/config/config_values.h"

#include <charconv>
#include <cmath>

namespace ringside {

Status BadValue(const std::string& text, const std::string& wanted) {
  return InvalidArgument("\"" + text + "\" is not " + wanted);
}

Result<int64_t> ParseInteger(const std::string& text, int64_t least, int64_t most) {
  int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (text.empty() || error != std::errc() || rest != end || value < least || value > most) {
    return BadValue(text, "a whole number from " + std::to_string(least) + " to " + std::to_string(most));
  }
  return value;
}

Result<double> ParseReal(const std::string& text, double least, double most) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (text.empty() || error != std::errc() || rest != end || !(value >= least && value <= most)) {
    return BadValue(text, fmt::format("a number from {} to {}", least, most));
  }
  return value;
}

Result<bool> ParseSwitch(const std::string& text) {
  if (text == "true" || text == "1" || text == "yes" || text == "on") return true;
  if (text == "false" || text == "0" || text == "no" || text == "off") return false;
  return BadValue(text, "true or false");
}

ApplyValues Real(std::optional<double> ServerConfig::*field, double least, double most) {
  return [=](ServerConfig& config, const Values& values) {
    ASSIGN_OR_RETURN(config.*field, ParseReal(values.back(), least, most));
    return Status::Ok();
  };
}

ApplyValues Milliseconds(int64_t ServerConfig::*field, double most_s) {
  return [=](ServerConfig& config, const Values& values) {
    ASSIGN_OR_RETURN(const double seconds, ParseReal(values.back(), 0, most_s));
    config.*field = std::llround(seconds * 1000);
    return Status::Ok();
  };
}

ApplyValues Text(std::string ServerConfig::*field) {
  return [=](ServerConfig& config, const Values& values) {
    if (values.back().empty()) return InvalidArgument("it is empty");
    config.*field = values.back();
    return Status::Ok();
  };
}

ApplyValues Switch(bool ServerConfig::*field) {
  return [=](ServerConfig& config, const Values& values) {
    ASSIGN_OR_RETURN(config.*field, ParseSwitch(values.back()));
    return Status::Ok();
  };
}

}  // namespace ringside
