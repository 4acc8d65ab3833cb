// The messages of one WebSocket of /v1/realtime. Input: messages, where ITEM and RESPONSE are replaced by existing ids.
// Every answer is an event, and every error is attributed to the client.
#include "tests/fuzz/fuzz_target.h"
#include "tests/session/scripted_engine.h"
#include "ws/json/json_value.h"
#include "ws/realtime/realtime.h"

namespace ringside {
namespace {

void Replace(std::string& text, std::string_view name, const std::string& value) {
  for (size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + value.size())) {
    text.replace(at, name.size(), value);
  }
}

class Connection : TableFixture {
 public:
  Connection() {
    face_.on_opened();
    Read();
  }
  ~Connection() {
    face_.on_closed();
    Answer();
  }
  void Send(std::string message) {
    Replace(message, "ITEM", item_);
    Replace(message, "RESPONSE", response_);
    face_.on_message(message);
    Read();
    // Some messages arrive while an answer is running.
    if (++messages_ % 2 == 0) Answer();
    Read();
  }

 private:
  void Answer() {
    const std::vector<TurnRequest> requests = engine.requests();
    for (size_t i = 0; i < requests.size(); ++i) {
      if (requests[i].sink != nullptr) engine.Answer(i, "Yo");
    }
  }
  static std::string IdIn(const JsonValue& event, std::string_view member, const std::string& otherwise) {
    const JsonValue* object = event.Find(member);
    const JsonValue* id = object == nullptr ? nullptr : object->Find("id");
    return id == nullptr || id->string().empty() ? otherwise : id->string();
  }
  void Read() {
    while (const std::optional<std::string> frame = outbox_->Take()) {
      const Result<JsonValue> event = ParseJson(*frame);
      Require(event.ok() && event->is_object(), "every frame is an event: " + *frame);
      Require(event->Find("type") != nullptr && event->Find("event_id") != nullptr, "an event has both: " + *frame);
      item_ = IdIn(*event, "item", item_);
      response_ = IdIn(*event, "response", response_);
      const JsonValue* error = event->Find("error");
      const JsonValue* type = error == nullptr ? nullptr : error->Find("type");
      Require(type == nullptr || type->string() != "server_error",
              "what a client sends is no fault of the server: " + *frame);
    }
  }

  std::string item_ = "msg_unknown", response_ = "resp_unknown";
  int messages_ = 0;
  std::shared_ptr<Outbox> outbox_ = std::make_shared<Outbox>([] {});
  SocketFace face_ = RealtimeRoute(table).open(HttpRequest{}, outbox_);
};

}  // namespace

std::vector<std::string> Seeds() {
  const std::string item =
      R"({"type":"conversation.item.create","event_id":"e","item":{"type":"message","role":"user","content":[{"type":"input_text","text":"Hi"}]}})";
  return {
      JoinParts(
          {R"({"type":"session.update","session":{"type":"realtime","instructions":"Be brief.","max_output_tokens":20,"output_modalities":["text"],"tools":[],"tool_choice":"auto","truncation":"auto"}})",
           item, R"({"type":"response.create","response":{"metadata":{"k":"v"},"max_output_tokens":"inf"}})",
           R"({"type":"conversation.item.retrieve","item_id":"ITEM"})",
           R"({"type":"conversation.item.delete","item_id":"ITEM"})"}),
      JoinParts({item, R"({"type":"response.create"})", item, R"({"type":"response.create"})",
                 R"({"type":"response.cancel","response_id":"RESPONSE"})", R"({"type":"response.cancel"})"}),
      JoinParts(
          {R"({"type":"conversation.item.create","previous_item_id":"root","item":{"id":"mine","type":"message","role":"system","content":[{"type":"input_text","text":"x"}]}})",
           R"({"type":"response.create","response":{"conversation":"none","temperature":0.5,"input":[{"type":"item_reference","id":"ITEM"},{"type":"message","role":"assistant","content":[{"type":"output_text","text":"y"}]}]}})",
           R"({"type":"conversation.item.truncate","item_id":"ITEM","content_index":0,"audio_end_ms":1})",
           R"({"type":"input_audio_buffer.append","audio":""})"}),
      JoinParts(
          {R"({"type":"session.update","session":{"tools":[{"type":"function","name":"f","parameters":{"type":"object"}}],"tool_choice":"required"}})",
           R"({"type":"conversation.item.create","item":{"type":"function_call","call_id":"c","name":"f","arguments":"{}"}})",
           R"({"type":"conversation.item.create","item":{"id":"mine","type":"function_call_output","call_id":"c","output":"2"}})",
           R"({"type":"response.create","response":{"conversation":"none","input":[{"type":"item_reference","id":"ITEM"},{"type":"item_reference","id":"mine"}],"tool_choice":"none"}})"})};
}

}  // namespace ringside

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ringside;
  Connection connection;
  for (const std::string_view message : SplitParts(data, size)) connection.Send(std::string(message));
  return 0;
}
