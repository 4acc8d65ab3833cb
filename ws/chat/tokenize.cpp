#include "ws/chat/tokenize.h"

#include <optional>

#include "ws/chat/message_fields.h"
#include "ws/fields/ignored_report.h"
#include "ws/json/json_writer.h"
#include "ws/openai/responses/responses_fields.h"

namespace ringside {
namespace {

struct TokenizeRequest {
  IgnoredFields ignored;
  std::string text;
  bool begins = false;  // a token goes in front of the text if the model's texts begin with one
};

Result<TokenizeRequest> ReadTokenizeRequest(const HttpRequest& request, const SessionTableOptions& options) {
  ASSIGN_OR_RETURN(const JsonValue body, ReadBody(request));
  std::optional<std::string> text;
  std::optional<bool> begins;
  IgnoredFields ignored(options.strict_requests);
  for (const auto& [key, value] : body.object()) {
    if (value.is_null()) continue;
    if (key == "model") {
      std::optional<std::string> any;  // adapters have the model's tokens
      RETURN_IF_ERROR(ReadModel(value, key, options, &any));
    } else if (key == "prompt" || key == "content") {
      std::string given;
      RETURN_IF_ERROR(ReadString(value, key, &given));
      if (text && *text != given) {
        return InvalidArgument("'prompt' and 'content' are two names of one text.", key,
                               "mutually_exclusive_parameters");
      }
      text = std::move(given);
    } else if (key == "add_special_tokens" || key == "add_special") {
      RETURN_IF_ERROR(ReadBool(value, key, &begins.emplace()));
    } else {
      RETURN_IF_ERROR(ignored.UnknownOfRequest(value, key));
    }
  }
  if (!text) return MissingParameter("prompt");
  return TokenizeRequest{std::move(ignored), *std::move(text), begins.value_or(body.Find("prompt") != nullptr)};
}

}  // namespace

HttpResponse Tokenize(const ChatService& service, const HttpRequest& request) {
  const SessionTableOptions& options = service.table.options();
  Result<TokenizeRequest> read = ReadTokenizeRequest(request, options);
  if (!read.ok()) return ErrorResponse(read.status());
  const TextPiece piece{std::move(read->text), /*markup=*/true};
  std::vector<TokenId> ids = service.table.tokenizer().EncodeAll({&piece, 1});
  if (read->begins) BeginText(options.text_begin, &ids);
  JsonWriter json;
  json.BeginObject().Field("count", ids.size()).Field("max_model_len", options.request_len());
  json.Key("tokens").BeginArray();
  for (const TokenId id : ids) json.Value(id);
  WriteRingsideIgnored(json.EndArray(), read->ignored.names());
  HttpResponse answer;
  answer.body = json.EndObject().Take();
  return Reported(std::move(answer), options, request, read->ignored.names());
}

}  // namespace ringside
