// The stateless requests of every API: parsers, turns and answers. Input: requests, each a line with its path, then the
// body. Whole answers are one JSON value, streams end properly, and client input never causes a server error.
#include "tests/fuzz/fuzz_target.h"
#include "tests/session/scripted_engine.h"
#include "ws/chat/chat_routes.h"
#include "ws/json/json_value.h"

namespace ringside {
namespace {

class Client : TableFixture {
 public:
  Client() : TableFixture(WithEmbeddings(), "qwen3") {
    // Further choices would start on another thread: the first one of each prompt is enough here.
    RegisterChatRoutes(router_,
                       {.table = table,
                        .retry_after_ms = nullptr,
                        .run_on_worker = [](const std::string&, size_t,
                                            const std::function<void()>&) { return Unavailable("no worker"); }},
                       {.version = "1", .created = 1});
  }
  ~Client() { Answer(); }

  void Ask(std::string_view text) {
    const size_t line = std::min(text.find('\n'), text.size());
    HttpRequest request;
    request.method = "POST";
    request.path = std::string(text.substr(0, line));
    request.body = std::string(text.substr(std::min(line + 1, text.size())));
    request.principal = "me";
    HttpResponse response = router_.Route(request);
    Require(response.status < 500, "what a client sends is no fault of the server: " + response.body);
    if (response.stream) return Read(response);
    if (response.later == nullptr) {
      return Require(ParseJson(response.body).ok(), "an answer at once is JSON: " + response.body);
    }
    Answer();
    bool given = false;
    response.later->Await([&] { given = true; });
    if (!given) return;  // it has more choices
    const HttpResponse late = response.later->Take()();
    Require(ParseJson(late.body).ok(), "a whole answer is JSON: " + late.body);
  }

 private:
  static SessionTableOptions WithEmbeddings() {
    SessionTableOptions options = TableFixture::Options();
    options.embedding_size = 3;
    return options;
  }
  void Read(const HttpResponse& response) {
    const auto outbox = std::make_shared<Outbox>([] {});
    const std::shared_ptr<void> source = response.stream(outbox);
    Answer();
    while (const std::optional<std::string> text = outbox->Take()) {
      Require(text->ends_with('\n'), "a stream has whole lines: " + *text);
    }
  }
  void Answer() {
    const std::vector<TurnRequest> requests = engine.requests();
    for (size_t i = 0; i < requests.size(); ++i) {
      if (requests[i].sink == nullptr) continue;
      if (requests[i].embedded) {
        engine.Embed(i, {1, 2, 3});
        continue;
      }
      engine.Start(i);
      if (requests[i].scored) engine.Score(i);
      requests[i].channels != nullptr ? engine.Sample(i, "<think>\nHm\n</think>\n\nYo") : engine.Say(i, "Yo");
      engine.End(i);
    }
  }

  Router router_;
};

}  // namespace

std::vector<std::string> Seeds() {
  return {JoinParts({R"(/v1/chat/completions
{"model":"tiny","messages":[{"role":"system","content":"Be brief."},{"role":"user","content":[{"type":"text","text":"Hi"}]}],"n":1,"stop":["a"],"logit_bias":{"5":-100},"seed":7,"logprobs":true,"top_logprobs":2,"max_completion_tokens":9,"temperature":0.5,"top_k":3,"tools":[],"tool_choice":"auto","response_format":{"type":"text"},"user":"u","metadata":{"k":"v"}})",
                     R"(/v1/chat/completions
{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA","detail":"low"}},{"type":"text","text":"?"}]},{"role":"assistant","content":"Yo","refusal":null},{"role":"user","content":"?"}],"stream":true,"stream_options":{"include_usage":true},"store":true})"}),
          JoinParts({R"(/v1/chat/completions
{"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{"a":{"type":"integer"}}},"strict":true}}],"tool_choice":{"type":"function","function":{"name":"f"}},"messages":[{"role":"user","content":"Hi"},{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}]},{"role":"tool","tool_call_id":"c","content":"2"}]})",
                     R"(/v1/messages
{"max_tokens":9,"tools":[{"name":"f","input_schema":{"type":"object"}}],"tool_choice":{"type":"any","disable_parallel_tool_use":true},"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":[{"type":"text","text":"a"},{"type":"tool_use","id":"c","name":"f","input":{"a":1}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}}],"is_error":false},{"type":"text","text":"b"}]}]})",
                     R"(/api/chat
{"tools":[{"type":"function","function":{"name":"f"}}],"messages":[{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":{"a":[1.5]}}}]},{"role":"tool","tool_name":"f","content":"2"},{"role":"user","content":"?","images":["AAAA"]}]})"}),
          JoinParts({R"(/v1/completions
{"model":"tiny","prompt":"Once","echo":true,"max_tokens":5,"stream":true,"suffix":null,"best_of":1})",
                     R"(/v1/completions
{"prompt":[[79,110],[99,101]],"logprobs":2})",
                     R"(/v1/completions
{"prompt":["a","b"],"n":1,"presence_penalty":0.5})",
                     R"(/v1/completions
{"prompt":"a b","echo":true,"logprobs":1,"max_tokens":0})",
                     R"(/v1/embeddings
{"input":["a",[98,99]],"encoding_format":"base64","dimensions":3,"user":"u"})",
                     R"(/api/embed
{"model":"tiny","input":["a","b"],"truncate":true,"options":{}})",
                     R"(/tokenize
{"prompt":"a b","add_special_tokens":false})",
                     R"(/models/load
{"model":"tiny"})"}),
          JoinParts({R"(/v1/messages
{"model":"tiny","max_tokens":9,"system":[{"type":"text","text":"Be brief.","cache_control":{"type":"ephemeral"}}],"messages":[{"role":"user","content":"Hi"}],"stop_sequences":["z"],"stream":true,"thinking":{"type":"disabled"},"metadata":{"user_id":"u"}})",
                     R"(/v1/messages/count_tokens
{"model":"tiny","messages":[{"role":"user","content":"Hi"}]})"}),
          JoinParts({R"(/v1/chat/completions
{"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":null,"reasoning_content":"Hm"},{"role":"assistant","content":"Yo","reasoning":"Hm"},{"role":"user","content":"?"}],"stream":true,"reasoning_effort":"low","reasoning":{"effort":"none","max_tokens":9,"exclude":false},"chat_template_kwargs":{"enable_thinking":true},"reasoning_budget":5,"include_reasoning":true,"return_token_ids":true})",
                     R"(/v1/messages
{"max_tokens":99,"stream":true,"thinking":{"type":"enabled","budget_tokens":1024,"display":"omitted"},"output_config":{"effort":"high"},"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":[{"type":"thinking","thinking":"","signature":"ringside.1:SG0="},{"type":"redacted_thinking","data":"ringside.1:SG0="},{"type":"text","text":"Yo"}]},{"role":"user","content":"?"}]})",
                     R"(/api/chat
{"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":"Yo","thinking":"Hm"}],"think":"high"})"}),
          JoinParts({R"(/api/chat
{"model":"tiny:latest","messages":[{"role":"user","content":"Hi","images":[]}],"options":{"num_predict":4,"temperature":0.5,"repeat_penalty":1.1,"num_ctx":99,"stop":["z"]},"keep_alive":"5m","format":"","stream":false})",
                     R"(/api/generate
{"prompt":"Hi","system":"Be brief.","raw":false,"context":[],"logprobs":true,"top_logprobs":2,"options":{"num_predict":-1}})",
                     R"(/api/show
{"model":"tiny"})"})};
}

}  // namespace ringside

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ringside;
  Client client;
  for (const std::string_view request : SplitParts(data, size)) client.Ask(request);
  return 0;
}
