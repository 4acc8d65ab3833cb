// The user's sampling settings: a table of names for /set and the command line, and the values set so far. A plain
// value.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "clients/wire/outcome.h"

namespace ringside::client {

class Settings {
 public:
  /// Sets one by name ("temperature", "max_tokens", "stop", ...); "default" restores the server's value. `stop` takes a
  /// text (with \n for a newline) or a JSON list of texts. Fails for an unknown name or a bad value.
  Outcome<Done> Set(const std::string& name, const std::string& value);
  /// Sets `stop` to exactly these texts. REQUIRES: none is empty.
  Outcome<Done> SetStops(const std::vector<std::string>& texts);
  /// Members for a response.create: wire name, JSON text.
  std::vector<std::pair<std::string, std::string>> Fields() const;
  /// One line per name with its value and meaning. Unset values come from the server: `defaults` maps wire names to
  /// JSON text where known.
  std::string Describe(const std::map<std::string, std::string>& defaults) const;
  /// The set values by name, as Set takes them.
  std::map<std::string, std::string> Given() const;
  static std::vector<std::string> Names();

 private:
  struct Value {
    std::string given, json;
  };
  std::map<std::string, Value> values_;  // by name
};

}  // namespace ringside::client
