#include "ws/chat/tokenize.h"

#include <limits>
#include <optional>

#include "session/turn/turn_input.h"
#include "ws/chat/message_fields.h"
#include "ws/chat/prompts.h"
#include "ws/fields/ignored_report.h"
#include "ws/json/json_writer.h"
#include "ws/openai/responses/responses_fields.h"
#include "ws/openai/tool_fields.h"

namespace ringside {
namespace {

struct TokenizeRequest {
  IgnoredFields ignored;
  std::optional<std::string> text;
  std::optional<TurnSpec> turn;  // of messages
  std::optional<bool> begins;    // a token goes in front of the text if the model's texts begin with one
  bool opens = true;             // the answer's beginning follows the messages
  bool names = false;            // the answer includes the tokens' spellings
};

Status ReadField(const JsonValue& value, const std::string& key, const SessionTableOptions& options,
                 TokenizeRequest* request) {
  IgnoredFields* const ignored = &request->ignored;
  const auto turn = [&]() -> TurnSpec& {
    return request->turn ? *request->turn : request->turn.emplace(StatelessTurn(options));
  };
  std::optional<std::string> any;  // adapters have the model's tokens
  if (key == "model") return ReadModel(value, key, options, &any);
  if (key == "messages") return ReadMessages(value, key, ChatMessageRules(), 1, ignored, &turn().input);
  if (key == "tools") {
    return ReadTools(value, key, ToolShape::kNested, /*strict_default=*/false, ignored, &turn().tools.emplace());
  }
  if (key == "add_generation_prompt") return ReadBool(value, key, &request->opens);
  if (key == "return_token_strs") return ReadBool(value, key, &request->names);
  if (key == "add_special_tokens" || key == "add_special") return ReadBool(value, key, &request->begins.emplace());
  if (key != "prompt" && key != "content") return ignored->UnknownOfRequest(value, key);
  std::string given;
  RETURN_IF_ERROR(ReadString(value, key, &given));
  if (request->text && *request->text != given) {
    return InvalidArgument("'prompt' and 'content' are two names of one text.", key, "mutually_exclusive_parameters");
  }
  request->text = std::move(given);
  return Status::Ok();
}

Result<TokenizeRequest> ReadTokenizeRequest(const HttpRequest& request, const SessionTableOptions& options) {
  ASSIGN_OR_RETURN(const JsonValue body, ReadBody(request));
  TokenizeRequest out;
  out.ignored = IgnoredFields(options.strict_requests);
  RETURN_IF_ERROR(ReadFields(
      body, [&](const JsonValue& value, const std::string& key) { return ReadField(value, key, options, &out); }));
  if (out.turn && out.text) {
    return InvalidArgument("'messages' and a text are two prompts.", "messages", "mutually_exclusive_parameters");
  }
  if (out.turn && out.turn->input.empty()) return MissingParameter("messages");
  if (!out.turn && !out.text) return MissingParameter("prompt");
  if (!out.begins) out.begins = body.Find("prompt") != nullptr;
  return out;
}

Result<std::vector<TokenId>> TokensOf(const ChatService& service, const HttpRequest& request, TokenizeRequest* asked) {
  if (asked->turn) {
    asked->turn->warm_up = !asked->opens;
    ASSIGN_OR_RETURN(const SharedList<TokenId> tokens, service.table.InputTokens(CallerOf(request), *asked->turn));
    return tokens.From(0);
  }
  const TextPiece piece{*std::move(asked->text), /*markup=*/true};
  std::optional<std::vector<TokenId>> ids;
  RETURN_IF_ERROR(TokeniseLong(piece.text.size(), [&] {
    ids = service.table.tokenizer().Encode({&piece, 1}, std::numeric_limits<int64_t>::max());
  }));
  if (*asked->begins) BeginText(service.table.options().text_begin, &*ids);
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
  const SessionTableOptions& options = service.table.options();
  Result<TokenizeRequest> read = ReadTokenizeRequest(request, options);
  if (!read.ok()) return ErrorResponse(read.status());
  const Result<std::vector<TokenId>> ids = TokensOf(service, request, &*read);
  if (!ids.ok()) return ErrorResponse(ids.status());
  JsonWriter json;
  json.BeginObject().Field("count", ids->size()).Field("max_model_len", options.request_len());
  json.Key("tokens").BeginArray();
  for (const TokenId id : *ids) json.Value(id);
  json.EndArray();
  if (read->names) {
    json.Key("token_strs").BeginArray();
    for (const TokenId id : *ids) json.Value(service.table.tokenizer().TokenName(id));
    json.EndArray();
  }
  return Whole(json, service, request, read->ignored);
}

HttpResponse Detokenize(const ChatService& service, const HttpRequest& request) {
  const SessionTableOptions& options = service.table.options();
  const Result<JsonValue> body = ReadBody(request);
  if (!body.ok()) return ErrorResponse(body.status());
  IgnoredFields ignored(options.strict_requests);
  std::optional<std::vector<TokenId>> ids;
  const Status read = ReadFields(*body, [&](const JsonValue& value, const std::string& key) {
    std::optional<std::string> any;
    if (key == "model") return ReadModel(value, key, options, &any);
    return key == "tokens" ? ReadTokenIds(value, key, &ids.emplace()) : ignored.UnknownOfRequest(value, key);
  });
  if (!read.ok()) return ErrorResponse(read);
  if (!ids) return ErrorResponse(MissingParameter("tokens"));
  const Tokenizer& tokenizer = service.table.tokenizer();
  for (const TokenId id : *ids) {
    if (id < tokenizer.vocab_size()) continue;
    return ErrorResponse(InvalidArgument("No token has the id " + std::to_string(id) + ".", "tokens", "invalid_value"));
  }
  const std::string text = TextOfTokens(*ids, tokenizer);
  JsonWriter json;
  json.BeginObject().Field("prompt", text).Field("content", text);  // vLLM's name and llama.cpp's
  return Whole(json, service, request, ignored);
}

HttpResponse ApplyTemplate(const ChatService& service, const HttpRequest& request) {
  Result<TokenizeRequest> read = ReadTokenizeRequest(request, service.table.options());
  if (read.ok() && !read->turn) read = MissingParameter("messages");
  if (!read.ok()) return ErrorResponse(read.status());
  const Result<std::vector<TokenId>> ids = TokensOf(service, request, &*read);
  if (!ids.ok()) return ErrorResponse(ids.status());
  JsonWriter json;
  json.BeginObject().Field("prompt", TextOfTokens(*ids, service.table.tokenizer()));
  return Whole(json, service, request, read->ignored);
}

}  // namespace ringside
