#include "clients/bench/dataset.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/json/json_tree.h"
#include "clients/wire/json_fields.h"

namespace ringside::client {
namespace {

using Json = nlohmann::json;

// ShareGPT's recorded conversations have 640 MB.
constexpr JsonLimits kDatasetLimits{.bytes = int64_t{4} << 30, .values = 1 << 28};

std::vector<std::string> UserMessages(const Json& conversation) {
  std::vector<std::string> messages;
  for (const char* list : {"conversations", "messages"}) {
    if (!conversation.is_object() || !conversation.contains(list) || !conversation[list].is_array()) continue;
    for (const Json& message : conversation[list]) {
      if (!message.is_object()) continue;
      const std::string who = Text(message, "from") + Text(message, "role");
      std::string text = Text(message, "value") + Text(message, "content");
      if ((who == "human" || who == "user") && !text.empty()) messages.push_back(std::move(text));
    }
  }
  return messages;
}

}  // namespace

Outcome<Dataset> ParseDataset(std::string_view text) {
  const Json json = ParseJsonTree(text, kDatasetLimits);
  if (!json.is_array()) return Failure{"The data set is not a JSON list of conversations."};
  Dataset dataset;
  for (const Json& conversation : json) {
    std::vector<std::string> messages = UserMessages(conversation);
    if (!messages.empty()) dataset.push_back(std::move(messages));
  }
  if (dataset.empty()) {
    return Failure{"The data set has no conversation with a user message (\"conversations\" or \"messages\")."};
  }
  return dataset;
}

Outcome<Dataset> ReadDataset(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return Failure{"Cannot read " + path + ": " + std::strerror(errno) + "."};
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  return ParseDataset(text);
}

}  // namespace ringside::client
