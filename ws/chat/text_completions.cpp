#include "ws/chat/text_completions.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/clock.h"
#include "base/limits.h"
#include "engine/text/detokenizer.h"
#include "engine/text/unicode.h"
#include "session/ids.h"
#include "ws/chat/completion_fields.h"
#include "ws/chat/completion_format.h"
#include "ws/chat/message_fields.h"
#include "ws/chat/prompts.h"
#include "ws/content/asked_model.h"
#include "ws/fields/common_fields.h"
#include "ws/fields/field_readers.h"
#include "ws/fields/ignored_report.h"
#include "ws/fields/sampling_fields.h"

namespace ringside {
namespace {

struct TextRequest : CompletionFields {
  std::vector<RawPrompt> prompts;
  bool echo = false;
  bool begins = true;
  int64_t logprobs = -1;
  int64_t best_of = 0;  // 0 = absent
};

/// All answers are returned, so no more than `n` are generated.
Status CheckBestOf(TextRequest* request) {
  if (request->best_of == 0 || request->best_of == request->choices) return Status::Ok();
  if (request->best_of > request->choices) return request->ignored.Hint("best_of", "more answers than are given");
  return InvalidArgument("'best_of' is at least 'n'.", "best_of", "invalid_value");
}

Status ReadTextPrompt(const JsonValue& value, const std::string& param, const FieldContext&, TextRequest* request) {
  return ReadPrompts(value, param, kMaxChoices, &request->prompts);
}

const FieldTable<TextRequest>& TextTable() {
  static const FieldTable<TextRequest> table(Join(
      Fields<TextRequest>{{"prompt", FieldType::kString | FieldType::kArray, ReadTextPrompt},
                          {"echo", &TextRequest::echo},
                          {"add_special_tokens", &TextRequest::begins},
                          {"logprobs", &TextRequest::logprobs, Range{0, limits::kMaxTopLogprobs}},
                          {"suffix", Refuse{}},
                          {"best_of", &TextRequest::best_of, Range{1}}},
      In(&TextRequest::turn, Fields<TurnSpec>{OutputTokensField("max_tokens", 0)}), CompletionRows(), ForeignFields()));
  return table;
}

Result<TextRequest> ReadTextRequest(const JsonValue& body, const SessionTableOptions& options) {
  TextRequest out;
  out.ignored = IgnoredFields(options.strict_requests);
  out.turn = StatelessTurn(options);
  RETURN_IF_ERROR(TextTable().Read(body, {options, &out.ignored}, &out));
  ClampOutput(options, "max_tokens", &out.turn, &out.ignored);
  RETURN_IF_ERROR(ChooseGuided(&out));
  RETURN_IF_ERROR(CheckBestOf(&out));
  if (out.prompts.empty()) return MissingParameter("prompt");
  if (static_cast<int64_t>(out.prompts.size()) * out.choices > kMaxChoices) {
    return InvalidArgument(
        "At most " + std::to_string(kMaxChoices) + " choices are allowed per request, over all prompts.", "n",
        "invalid_value");
  }
  if (out.turn.max_output_tokens == 0 && !out.echo) {
    return InvalidArgument("An answer of no tokens needs 'echo'.", "max_tokens", "invalid_value");
  }
  if (out.echo && out.logprobs >= 0) {
    if (out.stream) return Unsupported("logprobs", "'logprobs' of an echoed prompt in a stream");
    for (RawPrompt& prompt : out.prompts) prompt.scored = true;
  }
  for (RawPrompt& prompt : out.prompts) prompt.begins = out.begins;
  out.turn.sampling.logprobs = out.logprobs;
  RETURN_IF_ERROR(CheckBeamFields(body, &out.turn));
  return out;
}

/// JSON has no infinity: a token excluded by the model gets the lowest float.
double Finite(float logprob) { return std::max(logprob, std::numeric_limits<float>::lowest()); }

class TextFormat final : public CompletionFormat {
 public:
  TextFormat(const Tokenizer& tokenizer, Frame frame, bool logprobs, std::vector<std::string> echoes)
      : CompletionFormat(tokenizer, frame), choices_(frame.choices), logprobs_(logprobs), echoes_(std::move(echoes)) {}

  std::string Begin(size_t choice, const Response& response, bool) const override {
    JsonWriter ids;
    WritePromptIds(ids, response);
    if (EchoOf(choice).empty() && ids.text().empty()) return "";
    return TextChunk(choice, EchoOf(choice), {}, 0, ids.text());
  }
  std::string Piece(const ChoicePiece& piece) const override {
    JsonWriter ids;
    WriteIds(ids, piece.tokens);
    return TextChunk(piece.choice, piece.text, piece.tokens, piece.offset, ids.text(), UsageSoFar(piece));
  }
  std::string Rest(size_t choice, std::span<const TokenId> rest) const override {
    JsonWriter ids;
    WriteIds(ids, rest);
    return TextChunk(choice, "", {}, 0, ids.text());
  }
  std::string End(size_t choice, const Response& response) const override {
    JsonWriter json;
    json.Field("text", "").Key("logprobs").Null();
    WriteFinish(json, response);
    return LastChunk(choice, json.text(), response);
  }

 protected:
  void WriteWhole(JsonWriter& json, size_t choice, const Response& response) const override {
    json.Field("text", std::string(EchoOf(choice)) + response.text);
    const size_t scored = response.scored_tokens;
    WriteLogprobs(json, response.tokens, scored, OffsetsOf(response.tokens, scored, EchoOf(choice)));
    WritePromptIds(json, response);
  }

 private:
  std::string_view EchoOf(size_t choice) const {
    return echoes_.empty() ? std::string_view() : echoes_[choice / static_cast<size_t>(choices_)];
  }
  std::string TextChunk(size_t choice, std::string_view text, std::span<const OutputToken> tokens, size_t offset,
                        std::string_view ids, const std::optional<AnswerUsage>& so_far = std::nullopt) const {
    std::vector<size_t> offsets = OffsetsOf(tokens, 0, "");
    for (size_t& at : offsets) at += offset;
    JsonWriter json;
    json.Field("text", text);
    WriteLogprobs(json, tokens, 0, offsets);
    json.Key("finish_reason").Null();
    if (!ids.empty()) json.Raw(ids);
    return Chunk(choice, json.text(), {}, so_far);
  }
  std::string_view NameOf(TokenId id) const {
    const std::string_view bytes = tokenizer_.TokenBytes(id);
    return bytes.empty() ? tokenizer_.TokenName(id) : bytes;
  }
  /// A unique key, even for bytes that are not UTF-8.
  std::string KeyOf(TokenId id) const {
    const std::string_view name = NameOf(id);
    if (ToValidUtf8(name) == name) return std::string(name);
    std::string key = "bytes:";
    for (const char c : name) key += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    return key;
  }
  /// Offset of each token's start in characters; the first `scored` tokens are those of `echo`.
  std::vector<size_t> OffsetsOf(std::span<const OutputToken> tokens, size_t scored, std::string_view echo) const {
    std::vector<size_t> offsets;
    size_t at = 0;
    // A token inserted before the prompt has no text.
    const bool begins = scored > 0 && tokenizer_.IsSpecial(tokens[0].id) && !echo.starts_with(NameOf(tokens[0].id));
    Detokenizer detokenizer(tokenizer_, scored > 0);
    for (size_t i = 0; i < tokens.size(); ++i) {
      if (i == scored && i > 0) at += CountCharacters(detokenizer.Finish());
      offsets.push_back(at + CountCharacters(Detokenizer(detokenizer).Finish()));
      if (i == 0 && begins) continue;
      const TokenId id = tokens[i].id;
      const bool named = i < scored && tokenizer_.IsSpecial(id);
      at += CountCharacters(named ? std::string(tokenizer_.TokenName(id)) : detokenizer.Push(id));
    }
    return offsets;
  }
  /// The first `scored` tokens are those of an echo.
  void WriteLogprobs(JsonWriter& json, std::span<const OutputToken> tokens, size_t scored,
                     const std::vector<size_t>& offsets) const {
    json.Key("logprobs");
    if (!logprobs_ || tokens.empty()) {
      json.Null();
      return;
    }
    const bool echoes = !echoes_.empty();  // the first token of an echoed prompt has no predecessor
    json.BeginObject().Key("tokens").BeginArray();
    // As written in the text, which excludes the answer's special tokens.
    for (size_t i = 0; i < tokens.size(); ++i) {
      json.Value(i < scored ? NameOf(tokens[i].id) : tokenizer_.TokenBytes(tokens[i].id));
    }
    json.EndArray().Key("token_logprobs").BeginArray();
    for (size_t i = 0; i < tokens.size(); ++i) {
      echoes&& i == 0 ? json.Null() : json.Value(Finite(tokens[i].logprob));
    }
    json.EndArray().Key("top_logprobs").BeginArray();
    for (size_t i = 0; i < tokens.size(); ++i) echoes&& i == 0 ? (void)json.Null() : WriteTop(json, tokens[i].top);
    json.EndArray().Key("text_offset").BeginArray();
    for (const size_t offset : offsets) json.Value(offset);
    json.EndArray().EndObject();
  }
  /// Among tokens with equal text, writes the most likely one only.
  void WriteTop(JsonWriter& json, std::span<const TokenLogprob> top) const {
    std::vector<std::string> keys;
    json.BeginObject();
    for (const TokenLogprob& one : top) {
      std::string key = KeyOf(one.id);
      if (std::ranges::count(keys, key) > 0) continue;
      json.Field(key, static_cast<double>(one.logprob));
      keys.push_back(std::move(key));
    }
    json.EndObject();
  }

  const int64_t choices_;
  const bool logprobs_;
  const std::vector<std::string> echoes_;  // by prompt; empty = no echo
};

std::string TextOf(const RawPrompt& prompt, const Tokenizer& tokenizer) {
  if (prompt.tokens.empty()) return prompt.text;
  return TextOfTokens(prompt.tokens, tokenizer);
}

}  // namespace

RequestKind TextCompletionKind() { return {"POST /v1/completions", TextTable().Describe()}; }

HttpResponse CreateTextCompletion(const ChatService& service, const HttpRequest& request) {
  const auto body = ReadAskedBody(service.table, request);
  if (!body.ok()) return ErrorResponse(body.status());
  const SessionTableOptions& options = *body->options;
  Result<TextRequest> read = ReadTextRequest(body->json, options);
  if (!read.ok()) return ErrorResponse(read.status());
  StatelessRequest answers{.choices = read->choices, .stream = read->stream, .input_param = "prompt"};
  std::vector<std::string> echoes;
  const bool token_ids = read->turn.token_ids;
  // Chunk usage requires ids with the pieces.
  if (read->stream && read->continuous_usage) read->turn.token_ids = true;
  for (RawPrompt& prompt : read->prompts) {
    if (read->echo) echoes.push_back(TextOf(prompt, *options.tokenizer));
    answers.prompts.push_back(read->turn);
    answers.prompts.back().raw = std::move(prompt);
  }
  auto format = std::make_shared<TextFormat>(
      *options.tokenizer,
      CompletionFormat::Frame{.id = MakeId("cmpl-"),
                              .model = ModelNameOf(read->turn.adapter, options),
                              .object = "text_completion",
                              .chunk_object = "text_completion",
                              .created = static_cast<int64_t>(SystemClock::Instance().WallSeconds()),
                              .choices = read->choices,
                              .include_usage = read->include_usage,
                              .continuous_usage = read->continuous_usage,
                              .token_ids = token_ids,
                              .ignored = read->ignored.names()},
      read->logprobs >= 0, std::move(echoes));
  HttpResponse answer = AnswerStateless(service, request, std::move(answers), std::move(format));
  return Reported(std::move(answer), options, request, read->ignored.names());
}

}  // namespace ringside
