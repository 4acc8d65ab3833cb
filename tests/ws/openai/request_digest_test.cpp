// Which changes make a response.create a different request.
#include "ws/content/request_digest.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <set>

#include "tests/session/scripted_engine.h"
#include "ws/content/response_request.h"

namespace ringside {
namespace {

using Json = nlohmann::ordered_json;

std::string Digest(std::string_view text) { return RequestDigest(ParseJson(text).value()); }

/// The key that identifies a request; the error's text if it is refused.
std::string KeyOf(const Json& body) {
  IgnoredFields ignored(/*strict=*/true);
  const Result<TurnSpec> spec = ReadCreate(ParseJson(body.dump()).value(), TableFixture::Options(), &ignored);
  return spec.ok() ? spec->request_key : spec.status().ToString();
}

Json Request() {
  return {{"type", "response.create"}, {"metadata", {{"client_request_id", "r1"}}}, {"max_output_tokens", 5}};
}

/// Values of each field: each changes the request, also compared with no value.
const Json kAsk = Json::parse(R"({
  "model": ["tiny", ""],
  "input": ["Hi", "Ho", [{"role": "user", "content": "Hi!"}], [{"role": "developer", "content": "Hi!"}]],
  "instructions": ["Be kind.", "Be brief.", ""],
  "previous_response_id": ["resp_1", "resp_2"],
  "conversation": ["conv_1", "conv_2"],
  "ringside": [{"memory_len": 16}, {"memory_len": 17}, {"session_len": 16}, {"eviction": "turn"}, {"eviction": "token"}],
  "store": [true, false],
  "generate": [true, false],
  "parallel_tool_calls": [true, false],
  "metadata": [{"client_request_id": "r1", "k": "v"}, {"client_request_id": "r1", "k": "w"}, {"client_request_id": "r2"}],
  "include": [[], ["message.output_text.logprobs"]],
  "truncation": ["auto", "disabled"],
  "prompt_cache_options": [{"prewarm": true}, {"prewarm": false}, {"mode": "x"}, {"ttl": "x"}],
  "top_logprobs": [1, 2],
  "max_tool_calls": [1, 2],
  "user": ["a", "b"],
  "safety_identifier": ["a", "b"],
  "prompt_cache_key": ["a", "b"],
  "session_id": ["a", "b"],
  "tools": [[]],
  "context_management": [[]],
  "moderation": [{}],
  "image": [{}],
  "access_programs": [[]],
  "prompt": [{}],
  "background": [false],
  "service_tier": ["auto", "default"],
  "tool_choice": ["auto", "none"],
  "prompt_cache_retention": ["in_memory", "24h"],
  "text": [{}, {"format": {"type": "text"}}, {"verbosity": "medium"}],
  "reasoning": [{}, {"effort": "none"}, {"effort": "low"}, {"effort": "low", "summary": "auto"}],
  "reasoning_effort": ["none", "low"],
  "thinking": [{"type": "enabled"}, {"type": "disabled"}, {"type": "enabled", "budget_tokens": 5}],
  "think": [true, false, "low"],
  "enable_thinking": [true, false],
  "thinking_budget": [1, 2],
  "thinking_budget_tokens": [1, 2],
  "thinking_token_budget": [1, 2],
  "reasoning_budget": [1, 2],
  "chat_template_kwargs": [{"a": 1}, {"a": 2}],
  "include_reasoning": [true, false],
  "reasoning_format": ["auto", "deepseek"],
  "temperature": [0.5, 0.25],
  "top_p": [0.5, 0.25],
  "min_p": [0.5, 0.25],
  "repetition_penalty": [1.5, 1.25],
  "presence_penalty": [0.5, 0.25],
  "frequency_penalty": [0.5, 0.25],
  "top_p_decay": [0.5, 0.25],
  "top_p_min": [0.5, 0.25],
  "top_p_reset": [1, 2],
  "top_k": [1, 2],
  "seed": [1, 9007199254740992, 9007199254740993, -1],
  "min_tokens": [1, 2],
  "max_output_tokens": [1, 2],
  "stop": ["a", "b", ["a", "b"], ["b", "a"]],
  "stop_token_ids": [[1], [2], [1, 2]],
  "logit_bias": [{"1": 1}, {"1": 2}, {"2": 1}],
  "bad_words": [["a"], ["b"], [[1]]],
  "ignore_eos": [true, false],
  "beam_width": [2, 3]
})");

/// As above, for fields that are refused without beams.
const Json kAskOfBeams = Json::parse(R"({
  "length_penalty": [0.5, 0.25],
  "early_stopping": [true, false, "never"],
  "beam_search_diversity_rate": [0.5, 0.25]
})");

const Json kTravel = Json::parse(R"({
  "type": ["response.create"], "event_id": ["e1", "e2"], "stream_id": ["lane"], "stream": [true, false],
  "stream_options": [{}, {"include_obfuscation": false}]
})");

void ExpectOthers(const Json& request, const Json& ask) {
  for (const auto& [field, values] : ask.items()) {
    Json without = request;
    without.erase(field);
    if (field == "metadata") without["event_id"] = "r1";
    std::set<std::string> keys = {KeyOf(without)};
    for (const Json& value : values) {
      Json body = request;
      body[field] = value;
      const std::string key = KeyOf(body);
      EXPECT_TRUE(key.starts_with("r1\nrequest_") || key.starts_with("r2\nrequest_")) << field << ": " << key;
      EXPECT_TRUE(keys.insert(key).second) << field << ": " << value;
      EXPECT_EQ(KeyOf(body), key);
    }
  }
}

TEST(RequestDigestTest, AnyChangedFieldChangesTheDigest) {
  ExpectOthers(Request(), kAsk);
  Json beams = Request();
  beams["beam_width"] = 4;
  ExpectOthers(beams, kAskOfBeams);
}

TEST(RequestDigestTest, DigestIgnoresTheTransport) {
  for (const auto& [field, values] : kTravel.items()) {
    for (const Json& value : values) {
      Json body = Request();
      body[field] = value;
      EXPECT_EQ(KeyOf(body), KeyOf(Request())) << field << ": " << value;
    }
  }
}

TEST(RequestDigestTest, TablesCoverEveryField) {
  std::set<std::string> tested;
  for (const auto& fields : {kAsk, kAskOfBeams, kTravel}) {
    for (const auto& [field, values] : fields.items()) tested.insert(field);
  }
  std::set<std::string> read;
  for (const FieldInfo& field : CreateKind(/*http=*/true).fields) {
    const bool refused = field.policy == FieldPolicy::kRefuse;  // no request with it has a digest
    if (field.name.find('.') == std::string::npos && (!refused || field.name == "prompt")) read.insert(field.name);
  }
  EXPECT_EQ(read, tested);
}

TEST(RequestDigestTest, EquivalentRequestsHaveTheSameDigest) {
  const std::string plain = R"({"input":[{"role":"user","content":"é"}],"top_k":16,"logit_bias":{"1":2,"3":4}})";
  const std::string others[] = {
      R"({ "top_k" : 16, "logit_bias" : { "3" : 4, "1" : 2 }, "input" : [{ "content" : "é", "role" : "user" }] })",
      R"({"input":[{"role":"user","content":"\u00e9"}],"top_k":16.0,"logit_bias":{"1":2.0,"3":4e0}})",
      R"({"input":[{"role":"user","content":"é","id":null}],"top_k":1.6e1,"logit_bias":{"1":2,"3":4},"seed":null})",
  };
  for (const std::string& text : others) EXPECT_EQ(Digest(text), Digest(plain)) << text;
  EXPECT_NE(Digest(R"({"stop":["a","b"]})"), Digest(R"({"stop":["b","a"]})"));
  EXPECT_NE(Digest(R"({"stop":"1"})"), Digest(R"({"stop":1})"));
}

// It is stored: another version on another machine must find the answer again.
TEST(RequestDigestTest, IsPlatformIndependent) {
  EXPECT_EQ(Digest("{}"), "request_sczXemnyGL76HXfEgpcxh6");
  EXPECT_EQ(Digest(R"({"input":"Hé","temperature":0.1,"seed":-9007199254740993,"stop":["\u0001"],"store":false})"),
            "request_z8bRFChyRYO4HJkmwzs5p5");
}

}  // namespace
}  // namespace ringside
