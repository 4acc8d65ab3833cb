// The terminal client's parsers: server events and answers, event streams, recorded conversations, evaluation samples,
// attached files, presets, models, owners, text for the screen, keys, a URL. Input: lengths of the pieces of the rest,
// then the bytes.
#include <algorithm>

#include "clients/bench/dataset.h"
#include "clients/bench/protocol.h"
#include "clients/bench/sse_reader.h"
#include "clients/chat/repl/attached_file.h"
#include "clients/chat/repl/presets.h"
#include "clients/eval/samples.h"
#include "clients/terminal/key_decoder.h"
#include "clients/terminal/line_layout.h"
#include "clients/terminal/markdown.h"
#include "clients/terminal/sanitiser.h"
#include "clients/terminal/text_flow.h"
#include "clients/terminal/text_width.h"
#include "clients/wire/models.h"
#include "clients/wire/owners.h"
#include "clients/wire/server_event.h"
#include "clients/wire/transport/server_url.h"
#include "tests/fuzz/fuzz_target.h"

namespace ringside {
namespace {

using namespace client;

void Show(std::string_view text) {
  const std::string safe = Sanitise(text);
  Require(IsUtf8(safe), "what is shown is UTF-8");
  Require(std::none_of(safe.begin(), safe.end(),
                       [](unsigned char c) { return (c < 0x20 && c != '\n' && c != '\t') || c == 0x7f; }),
          "what is shown commands no terminal");
  Require(Sanitise(safe) == safe, "what can be shown stays as it is");
  for (std::string_view rest = safe; !rest.empty(); rest.remove_prefix(FirstCluster(rest))) {
    Require(FirstCluster(rest) > 0 && FirstCluster(rest) <= rest.size(), "a character ends in the text");
    Require(LastCluster(rest) > 0 && LastCluster(rest) <= rest.size(), "a character begins in the text");
    if (safe.size() > 200) break;  // each lookup scans the whole text
  }
  for (const int columns : {1, 7, 80}) {
    const LineLayout layout = LayOut("> ", ". ", safe, safe.size() / 2, columns);
    Require(layout.cursor_row < layout.rows.size(), "the cursor is in the text");
  }
  Markdown markdown;
  TextFlow flow(true);
  const auto flows = [&](const std::vector<StyledText>& pieces) {
    for (const StyledText& piece : pieces) {
      Require(IsUtf8(piece.text), "what is styled is whole characters");
      (void)flow.Put(piece.text, "\x1b[1m", piece.hang, 17);
      Require(flow.column() <= 17, "nothing is written beyond the border");
    }
  };
  flows(markdown.Push(safe));
  flows(markdown.Finish());
}

void ReadInPieces(std::string_view bytes, Choices choices) {
  Sanitiser sanitiser;
  KeyDecoder keys, keys_at_once;
  SseReader events, events_at_once;
  Markdown markdown;
  std::string shown;
  size_t pressed = 0;
  std::vector<std::string> heard;
  for (std::string_view rest = bytes; !rest.empty();) {
    const std::string_view piece = rest.substr(0, 1 + choices.Below(8));
    rest.remove_prefix(piece.size());
    const std::string safe = sanitiser.Push(piece);
    (void)markdown.Push(safe);
    shown += safe;
    for (std::string& event : events.Push(piece)) heard.push_back(std::move(event));
    pressed += keys.Push(piece).size();
  }
  Require(shown + sanitiser.Finish() == Sanitise(bytes), "text in pieces is the same text");
  Require(heard == events_at_once.Push(bytes), "events in pieces are the same events");
  Require(pressed == keys_at_once.Push(bytes).size(), "keys in pieces are the same keys");
}

}  // namespace

std::vector<std::string> Seeds() {
  const std::string events[] = {
      R"({"type":"response.completed","sequence_number":9,"response":{"id":"resp_1","status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":"Yo"}]}],"usage":{"input_tokens":5,"input_tokens_details":{"cached_tokens":4},"output_tokens":2},"error":null,"incomplete_details":{"reason":"max_output_tokens"},"ringside":{"source":"slot","tokens_reused":4,"tokens_computed":1,"tokens_evicted":0,"messages_evicted":0,"restore_ms":0.5,"position":7,"ttft_ms":1.5,"tokens_per_s":30}}})",
      R"({"type":"response.output_text.delta","sequence_number":3,"delta":"Yo","item_id":"msg_1"})",
      R"({"type":"response.reasoning_text.delta","sequence_number":3,"delta":"Hm","item_id":"rs_1"})",
      R"({"type":"ringside:session.snapshot","response_id":"resp_1","text":"Yo","reasoning":"Hm","next_seq":7,"output":[{"type":"reasoning","summary":[{"type":"summary_text","text":"Hm"}],"content":[{"type":"reasoning_text","text":"Hm"}]}]})",
      R"({"choices":[{"delta":{"reasoning_content":"Hm"}}]})",
      R"({"type":"error","status":429,"error":{"type":"x","code":"overloaded","message":"no","param":"input","retry_after_ms":100}})",
      R"({"type":"ringside:session.resumed","session":"conv_1","session_present":true,"epoch":2,"next_seq":7,"replay":"events","state":"slot","active_response_id":null,"kv_tokens":12,"seq":4,"chain":"00ff"})",
      "http://[::1]:8080/v1/responses",
      "data: {\"choices\":[{\"delta\":{\"content\":\"Yo\"}}]}\r\n\r\n: x\ndata:a\ndata:b\n\ndata: [DONE]\n\n",
      R"([{"conversations":[{"from":"human","value":"a"},{"from":"gpt","value":"b"}]},{"messages":[{"role":"user","content":"c"}]}])",
      R"({"choices":[{"index":0,"text":"a b","logprobs":{"tokens":["a"," b"],"token_logprobs":[null,-0.5],"top_logprobs":[null,{" b":-0.5}],"text_offset":[0,1]}}]})",
      "{\"text\":\"a b\"}\n{\"question\":\"a\",\"choices\":[\"b\",\"c\"],\"answer\":1}\n",
      "# A *b* **c _d_** `e` [f](g)\n- h\n  1. i\n> j\n```k\nl\n```\n~~m~~ \\* ![n](o)",
      R"({"object":"list","data":[{"owner":"a","conversations":1,"stored_bytes":2}],"totals":{"owners":1,"turns":0}})",
      R"({"data":[{"id":"m","parent":null,"max_input_tokens":9,"defaults":{"top_p":0.5}}]})",
      R"({"a":{"system":"b","model":"c","settings":{"temperature":"0.5","stop":"[\"d\"]"}}})",
      "A\x1b[31mred\x1b[0m\r\n\x1b[200~paste\nd\x1b[201~\x1b[1;"
      "5C\x1bOH\x7f\x01\xc3\xa9\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x92\xbb\xe2\x80\xae\xc2\x9b\xff"};
  std::vector<std::string> seeds;
  for (const std::string& event : events) seeds.push_back(JoinParts({"\1\2\3\4\5", event}));
  return seeds;
}

}  // namespace ringside

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ringside;
  const auto parts = SplitParts(data, size, 2);
  (void)client::ParseServerEvent(parts[1]);
  (void)client::ParseResponse(parts[1]);
  (void)client::ParseServerUrl(parts[1]);
  (void)client::ParseDataset(parts[1]);
  if (const auto file = client::AttachText("a.txt", std::string(parts[1]))) {
    Require(IsUtf8(client::WithFiles("a", {*file})), "an attached file is text");
  }
  (void)client::ParseModels(std::string(parts[1]));
  if (const auto owners = client::ParseOwners(std::string(parts[1]))) {
    Require(owners->json == parts[1], "the answer is kept verbatim");
  }
  const client::Presets presets = client::ParsePresets(parts[1]);
  Require(client::ParsePresets(client::WritePresets(presets)).size() == presets.size(), "presets survive their file");
  (void)client::ReadRefusal(400, parts[1]);
  (void)client::ReadTokens(std::string(parts[1]));
  (void)client::ReadPassages(parts[1], "<s>");
  (void)client::ReadQuestions(parts[1], "");
  for (const client::Prompt& prompt : {client::Prompt{.text = "a b", .from = 1}, {.ids = {5, 6}, .from = 1}}) {
    if (const auto told = client::ReadLikelihoods(std::string(parts[1]), {prompt})) {
      Require(!told->front().logprobs.empty(), "what is told is something");
    }
  }
  for (const std::string& name : client::ProtocolNames()) {
    (void)client::ReadEvent(*client::ProtocolNamed(name), parts[1]);
  }
  Show(parts[1]);
  ReadInPieces(parts[1], Choices(parts[0]));
  return 0;
}
