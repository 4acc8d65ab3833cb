#include "ws/chat/tokenize.h"

#include <limits>
#include <optional>

#include "session/turn/turn_input.h"
#include "ws/chat/message_fields.h"
#include "ws/chat/prompts.h"
#include "ws/content/asked_model.h"
#include "ws/content/tool_fields.h"
#include "ws/fields/common_fields.h"
#include "ws/fields/field_readers.h"
#include "ws/fields/ignored_report.h"
#include "ws/json/json_writer.h"

namespace ringside {
namespace {

struct TokenizeRequest {
  IgnoredFields ignored;
  std::optional<std::string> text;
  std::optional<TurnSpec> turn;  // for messages
  std::optional<bool> begins;    // prefix the text with the model's first token, if it has one
  bool opens = true;             // append the start of an answer to the messages
  bool names = false;            // include the tokens' spellings
};

TurnSpec& TurnOf(const SessionTableOptions& options, TokenizeRequest* request) {
  if (request->turn) return *request->turn;
  request->turn = StatelessTurn(options);
  request->turn->keeps_to_template = true;
  return *request->turn;
}

Status ReadPromptText(const JsonValue& value, const std::string& param, const FieldContext&, TokenizeRequest* request) {
  std::string given;
  RETURN_IF_ERROR(ReadString(value, param, &given));
  if (request->text && *request->text != given) {
    return InvalidArgument("'prompt' and 'content' are two names of one text.", param, "mutually_exclusive_parameters");
  }
  request->text = std::move(given);
  return Status::Ok();
}

Status ReadMessagesField(const JsonValue& value, const std::string& param, const FieldContext& context,
                         TokenizeRequest* request) {
  return ReadMessages(value, param, ChatMessageRules(), 1, context.ignored, &TurnOf(context.options, request).input);
}

Status ReadChatTools(const JsonValue& value, const std::string& param, const FieldContext& context,
                     TokenizeRequest* request) {
  return ReadTools(value, param, ToolShape::kNested, /*strict_default=*/false, context.ignored,
                   &TurnOf(context.options, request).tools.emplace());
}

/// Adapters share the model's tokenizer.
Status CheckModel(const JsonValue& value, const std::string& param, const FieldContext& context, void*) {
  std::optional<std::string> any;
  return ReadModel(value, param, context.options, &any);
}

const FieldTable<TokenizeRequest>& TokenizeTable() {
  static const FieldTable<TokenizeRequest> table(
      Join(Fields<TokenizeRequest>{{"model", FieldType::kString, CheckModel},
                                   {"prompt", FieldType::kString, ReadPromptText},
                                   {"content", AliasOf{"prompt"}},
                                   {"messages", FieldType::kArray, ReadMessagesField},
                                   {"tools", FieldType::kArray, ReadChatTools},
                                   {"add_generation_prompt", &TokenizeRequest::opens},
                                   {"return_token_strs", &TokenizeRequest::names},
                                   {"add_special_tokens", &TokenizeRequest::begins},
                                   {"add_special", AliasOf{"add_special_tokens"}}},
           ForeignFields()));
  return table;
}

struct DetokenizeRequest {
  std::optional<std::vector<TokenId>> ids;
};

Status ReadIds(const JsonValue& value, const std::string& param, const FieldContext&, DetokenizeRequest* request) {
  return ReadTokenIds(value, param, &request->ids.emplace());
}

const FieldTable<DetokenizeRequest>& DetokenizeTable() {
  static const FieldTable<DetokenizeRequest> table(
      Join(Fields<DetokenizeRequest>{{"model", FieldType::kString, CheckModel}, {"tokens", FieldType::kArray, ReadIds}},
           ForeignFields()));
  return table;
}

Result<TokenizeRequest> ReadTokenizeRequest(const JsonValue& body, const SessionTableOptions& options) {
  TokenizeRequest out;
  out.ignored = IgnoredFields(options.strict_requests);
  RETURN_IF_ERROR(TokenizeTable().Read(body, {options, &out.ignored}, &out));
  if (out.turn && out.text) {
    return InvalidArgument("'messages' and a text are two prompts.", "messages", "mutually_exclusive_parameters");
  }
  if (out.turn && out.turn->input.empty()) return MissingParameter("messages");
  if (!out.turn && !out.text) return MissingParameter("prompt");
  if (!out.begins) out.begins = body.Find("prompt") != nullptr;
  return out;
}

Result<std::vector<TokenId>> TokensOf(const ChatService& service, const SessionTableOptions& options,
                                      const HttpRequest& request, TokenizeRequest* asked) {
  if (asked->turn) {
    asked->turn->warm_up = !asked->opens;
    ASSIGN_OR_RETURN(const SharedList<TokenId> tokens, service.table.InputTokens(CallerOf(request), *asked->turn));
    return tokens.From(0);
  }
  const TextPiece piece{*std::move(asked->text), /*markup=*/true};
  std::optional<std::vector<TokenId>> ids;
  RETURN_IF_ERROR(TokeniseLong(piece.text.size(), [&] {
    ids = options.tokenizer->Encode({&piece, 1}, std::numeric_limits<int64_t>::max());
  }));
  if (*asked->begins) BeginText(options.text_begin, &*ids);
  return *std::move(ids);
}

HttpResponse Whole(JsonWriter& json, const ChatService& service, const HttpRequest& request,
                   const IgnoredFields& ignored) {
  WriteRingsideIgnored(json, ignored.names());
  HttpResponse answer;
  answer.body = json.EndObject().Take();
  return Reported(std::move(answer), service.table.options(), request, ignored.names());
}

}  // namespace

HttpResponse Tokenize(const ChatService& service, const HttpRequest& request) {
  const auto body = ReadAskedBody(service.table, request);
  if (!body.ok()) return ErrorResponse(body.status());
  const SessionTableOptions& options = *body->options;
  Result<TokenizeRequest> read = ReadTokenizeRequest(body->json, options);
  if (!read.ok()) return ErrorResponse(read.status());
  const Result<std::vector<TokenId>> ids = TokensOf(service, options, request, &*read);
  if (!ids.ok()) return ErrorResponse(ids.status());
  JsonWriter json;
  json.BeginObject().Field("count", ids->size()).Field("max_model_len", options.request_len());
  json.Key("tokens").BeginArray();
  for (const TokenId id : *ids) json.Value(id);
  json.EndArray();
  if (read->names) {
    json.Key("token_strs").BeginArray();
    for (const TokenId id : *ids) json.Value(options.tokenizer->TokenName(id));
    json.EndArray();
  }
  return Whole(json, service, request, read->ignored);
}

HttpResponse Detokenize(const ChatService& service, const HttpRequest& request) {
  const auto body = ReadAskedBody(service.table, request);
  if (!body.ok()) return ErrorResponse(body.status());
  const SessionTableOptions& options = *body->options;
  IgnoredFields ignored(options.strict_requests);
  DetokenizeRequest asked;
  const Status read = DetokenizeTable().Read(body->json, {options, &ignored}, &asked);
  if (!read.ok()) return ErrorResponse(read);
  const std::optional<std::vector<TokenId>>& ids = asked.ids;
  if (!ids) return ErrorResponse(MissingParameter("tokens"));
  const Tokenizer& tokenizer = *options.tokenizer;
  for (const TokenId id : *ids) {
    if (id < tokenizer.vocab_size()) continue;
    return ErrorResponse(InvalidArgument("Unknown token id " + std::to_string(id) + ".", "tokens", "invalid_value"));
  }
  const std::string text = TextOfTokens(*ids, tokenizer);
  JsonWriter json;
  json.BeginObject().Field("prompt", text).Field("content", text);  // vLLM's and llama.cpp's names
  return Whole(json, service, request, ignored);
}

HttpResponse ApplyTemplate(const ChatService& service, const HttpRequest& request) {
  const auto body = ReadAskedBody(service.table, request);
  if (!body.ok()) return ErrorResponse(body.status());
  const SessionTableOptions& options = *body->options;
  Result<TokenizeRequest> read = ReadTokenizeRequest(body->json, options);
  if (read.ok() && !read->turn) read = MissingParameter("messages");
  if (!read.ok()) return ErrorResponse(read.status());
  const Result<std::vector<TokenId>> ids = TokensOf(service, options, request, &*read);
  if (!ids.ok()) return ErrorResponse(ids.status());
  JsonWriter json;
  json.BeginObject().Field("prompt", TextOfTokens(*ids, *options.tokenizer));
  return Whole(json, service, request, read->ignored);
}

std::vector<RequestKind> TokenizeKinds() {
  const std::vector<FieldInfo> fields = TokenizeTable().Describe();
  return {
      {"POST /tokenize", fields}, {"POST /apply-template", fields}, {"POST /detokenize", DetokenizeTable().Describe()}};
}

}  // namespace ringside
