// How the user wants answers sampled: a table of names that /set and the command line know, and the values set so far.
// A plain value.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "clients/wire/outcome.h"

namespace ringside::client {

class Settings {
 public:
  /// Sets one by name ("temperature", "max_tokens", "stop", ...); "default" takes the server's again. `stop` takes a
  /// text (with \n for a newline) or a JSON list of texts. Fails with a sentence for an unknown name or a bad value.
  Outcome<Done> Set(const std::string& name, const std::string& value);
  /// Sets `stop` to exactly these texts, none of them empty.
  Outcome<Done> SetStops(const std::vector<std::string>& texts);
  /// Members for a response.create: wire name, JSON text.
  std::vector<std::pair<std::string, std::string>> Fields() const;
  /// One line per name: its value and what it means. What is not set is the server's: `defaults` has its JSON text by
  /// the wire's name where it is known.
  std::string Describe(const std::map<std::string, std::string>& defaults) const;
  static std::vector<std::string> Names();

 private:
  std::map<std::string, std::string> values_;  // name to JSON text
};

}  // namespace ringside::client
