#include "clients/wire/client_event.h"

#include <nlohmann/json.hpp>
#include <random>

#include "base/json/json_tree.h"
#include "clients/wire/json_fields.h"

namespace ringside::client {
namespace {

using OrderedJson = nlohmann::ordered_json;

OrderedJson ContentOf(const InputMessage& message) {
  if (message.images.empty()) return message.text;
  OrderedJson parts = OrderedJson::array();
  for (const std::string& image : message.images) {
    parts.push_back({{"type", "input_image"}, {"image_url", image}, {"detail", "auto"}});
  }
  if (!message.text.empty()) parts.push_back({{"type", "input_text"}, {"text", message.text}});
  return parts;
}

}  // namespace

std::string EncodeTurn(const TurnRequest& turn) {
  OrderedJson json = {{"type", "response.create"}, {"conversation", turn.conversation}};
  if (turn.input.size() == 1 && turn.input[0].role == "user" && turn.input[0].images.empty()) {
    json["input"] = turn.input[0].text;
  } else {
    json["input"] = OrderedJson::array();
    for (const InputMessage& message : turn.input) {
      json["input"].push_back({{"type", "message"}, {"role", message.role}, {"content", ContentOf(message)}});
    }
  }
  if (turn.instructions) json["instructions"] = *turn.instructions;
  if (!turn.request_id.empty()) json["metadata"] = {{"client_request_id", turn.request_id}};
  for (const auto& [name, value] : turn.fields) {
    const OrderedJson parsed = ParseOrderedJsonTree(value);
    if (!parsed.is_discarded()) json[name] = parsed;
  }
  return Dump(json);
}

std::string EncodeCancel(const std::string& response_id) {
  return Dump({{"type", "response.cancel"}, {"response_id", response_id}});
}

std::string EncodeResume(const std::string& session, std::optional<uint64_t> epoch, std::optional<uint64_t> after,
                         const std::optional<HistoryPosition>& known) {
  OrderedJson json = {{"type", "ringside:session.resume"}, {"session", session}};
  if (epoch) json["epoch"] = *epoch;
  if (after) json["after"] = *after;
  if (known) json["known"] = {{"seq", known->seq}, {"chain", known->chain}};
  return Dump(json);
}

std::string EncodeRewind(const std::string& session, int64_t to) {
  return Dump({{"type", "ringside:session.rewind"}, {"session", session}, {"to", to}});
}

std::string EncodeFork(const std::string& session, std::optional<int64_t> at) {
  OrderedJson json = {{"type", "ringside:session.fork"}, {"session", session}};
  if (at) json["at"] = *at;
  return Dump(json);
}

std::string MakeRequestId() {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::random_device device;
  std::string id = "req_";
  for (int word = 0; word < 4; ++word) {
    uint32_t bits = device();
    for (int digit = 0; digit < 8; ++digit, bits >>= 4) id += kDigits[bits & 15];
  }
  return id;
}

}  // namespace ringside::client
