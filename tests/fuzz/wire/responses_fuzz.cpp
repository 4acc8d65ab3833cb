// The messages of one WebSocket of /v1/responses. Input: messages, where CONVERSATION and RESPONSE are replaced by
// existing ids. Every answer is JSON and describes errors.
#include "tests/fuzz/fuzz_target.h"
#include "tests/session/scripted_engine.h"
#include "ws/json/json_value.h"
#include "ws/openai/responses/responses.h"

namespace ringside {
namespace {

void Replace(std::string& text, std::string_view name, const std::string& value) {
  for (size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + value.size())) {
    text.replace(at, name.size(), value);
  }
}

class Connection : TableFixture {
 public:
  Connection()
      : TableFixture(TableFixture::Options(), "qwen3"),
        conversation_(table.CreateSession({"me", 0}, {}, {}, {{ChatRole::kUser, "Hi"}})->id) {}
  ~Connection() {
    socket_.OnClosed();
    Answer();
  }
  void Send(std::string message) {
    Replace(message, "CONVERSATION", conversation_);
    Replace(message, "RESPONSE", response_);
    socket_.OnMessage(message);
    Read();
    Answer();
    Read();
  }

 private:
  void Answer() {
    const std::vector<TurnRequest> requests = engine.requests();
    for (size_t i = 0; i < requests.size(); ++i) {
      if (requests[i].sink == nullptr) continue;
      engine.Start(i);
      requests[i].channels != nullptr ? engine.Sample(i, "<think>\nHm\n</think>\n\nYo") : engine.Say(i, "Yo");
      engine.End(i);
    }
  }
  void Read() {
    while (const std::optional<std::string> frame = outbox_->Take()) {
      const Result<JsonValue> event = ParseJson(*frame);
      Require(event.ok() && event->is_object() && event->Find("type") != nullptr, "every frame is an event: " + *frame);
      if (const JsonValue* response = event->Find("response"); response != nullptr && response->is_object()) {
        if (const JsonValue* id = response->Find("id")) response_ = id->string();
      }
      const JsonValue* error = event->Find("error");
      const JsonValue* type = error == nullptr || !error->is_object() ? nullptr : error->Find("type");
      Require(type == nullptr || type->string() != "server_error",
              "what a client sends is no fault of the server: " + *frame);
    }
  }

  const std::string conversation_;
  std::string response_ = "resp_unknown";
  std::shared_ptr<Outbox> outbox_ = std::make_shared<Outbox>([] {});
  ResponsesSocket socket_{table, "me", outbox_};
};

}  // namespace

std::vector<std::string> Seeds() {
  const std::string create =
      R"({"type":"response.create","model":"tiny","conversation":"CONVERSATION","input":[{"type":"message","role":"user","content":[{"type":"input_image","image_url":"data:image/png;base64,AAAA","detail":"auto"},{"type":"input_text","text":"Hi"}]},{"role":"developer","content":"x"}],"instructions":"Be brief.","metadata":{"k":"v"},"truncation":"auto","store":true,"max_output_tokens":20,"temperature":0.5,"top_p":0.9,"top_k":4,"min_p":0.1,"seed":7,"stop":["a","b"],"logit_bias":{"5":-100},"presence_penalty":0.5,"frequency_penalty":-0.5,"repetition_penalty":1.1,"top_logprobs":2,"include":["message.output_text.logprobs"],"text":{"format":{"type":"text"}},"tools":[],"tool_choice":"auto","reasoning":null,"parallel_tool_calls":true,"user":"u","stream":true,"stream_id":"s"})";
  return {
      JoinParts({create, R"({"type":"response.create","previous_response_id":"RESPONSE","input":"More","store":false})",
                 R"({"type":"response.cancel","response_id":"RESPONSE"})"}),
      JoinParts(
          {R"({"type":"response.create","conversation":"CONVERSATION","input":[{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"Hm"}],"content":[{"type":"reasoning_text","text":"Hm"}],"encrypted_content":"ringside.1:SG0="},{"role":"assistant","content":"Yo"},{"role":"user","content":"?"}],"reasoning":{"effort":"high","summary":"auto"},"include":["reasoning.encrypted_content"]})",
           R"({"type":"ringside:session.resume","session":"CONVERSATION","after":3})"}),
      JoinParts({R"({"type":"response.create","conversation":{"id":"CONVERSATION"},"generate":false,"input":[]})",
                 R"({"type":"ringside:session.rewind","session":"CONVERSATION","to":1})",
                 R"({"type":"ringside:session.fork","session":"CONVERSATION","at":1})",
                 R"({"type":"response.cancel"})"}),
      JoinParts(
          {R"({"type":"ringside:session.resume","session":"CONVERSATION","epoch":1,"after":0,"seq":1,"chain":"00000000000000000000000000000000"})",
           R"({"type":"response.create","input":"Hi","ringside":{"memory_len":128,"session_len":512,"eviction":"token"}})",
           R"({"type":"ringside:session.resume","session":"RESPONSE"})"}),
      JoinParts(
          {R"({"type":"response.create","input":"Hi","tools":[{"type":"function","name":"f","description":"d","strict":false,"parameters":{"type":"object","properties":{"a":{"type":"integer"}}}}],"tool_choice":{"type":"allowed_tools","mode":"auto","tools":[{"type":"function","name":"f"}]},"parallel_tool_calls":false})",
           R"({"type":"response.create","previous_response_id":"RESPONSE","tool_choice":"none","input":[{"type":"function_call","id":"fc_x_0","call_id":"c","name":"f","arguments":"{\"a\": 1}"},{"type":"function_call_output","call_id":"c","output":[{"type":"input_text","text":"2"}]}]})"})};
}

}  // namespace ringside

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ringside;
  Connection connection;
  for (const std::string_view message : SplitParts(data, size)) connection.Send(std::string(message));
  return 0;
}
