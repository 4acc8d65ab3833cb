#include "ws/chat/model_changes.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "session/model_source.h"
#include "ws/fields/common_fields.h"
#include "ws/fields/ignored_report.h"
#include "ws/json/json_writer.h"

namespace ringside {
namespace {

constexpr const char* kLoadPath = "/models/load";
constexpr const char* kUnloadPath = "/models/unload";

struct ModelRequest {
  std::string model;
};

const FieldTable<ModelRequest>& ModelTable() {
  static const FieldTable<ModelRequest> table({{"model", &ModelRequest::model}});
  return table;
}

Status ReadModelRequest(const HttpRequest& request, const SessionTableOptions& options, IgnoredFields* ignored,
                        ModelRequest* out) {
  ASSIGN_OR_RETURN(const JsonValue body, ReadBody(request));
  RETURN_IF_ERROR(ModelTable().Read(body, {options, ignored}, out));
  return out->model.empty() ? MissingParameter("model") : Status::Ok();
}

/// The listed name of the model.
Result<std::string> NameOf(const ChatService& service, const HttpRequest& request, ModelChange change,
                           const std::string& asked) {
  if (change == ModelChange::kLoad) {
    ASSIGN_OR_RETURN(const SessionTableOptions* const options, service.table.OptionsFor(CallerOf(request), asked));
    return options->model_name;
  }
  Result<std::string> name = service.table.options().models->Resolve(asked, "model");
  if (name.ok()) return name;
  // Its file may be gone, but not yet its memory.
  const std::vector<ServedModel> all = service.models();
  const bool loaded = std::ranges::any_of(
      all, [&](const ServedModel& model) { return model.name == asked && model.state == "loaded"; });
  return loaded ? asked : name;
}

HttpResponse Change(const ChatService& service, ModelChange change, const HttpRequest& request) {
  const SessionTableOptions& options = service.table.options();
  IgnoredFields ignored(options.strict_requests);
  ModelRequest asked;
  if (const Status read = ReadModelRequest(request, options, &ignored, &asked); !read.ok()) return ErrorResponse(read);
  HttpResponse answer;
  if (!service.change_model) {
    answer = ErrorResponse(
        NotFound("This server has one model, which stays loaded; --models-dir serves several.", "", "no_models_dir"));
  } else if (const Result<std::string> name = NameOf(service, request, change, asked.model); !name.ok()) {
    answer = ErrorResponse(name.status());
  } else {
    answer = AnswerModelChange(service, change, *name, [change, model = *name](const Status& status) {
      if (!status.ok()) return ErrorResponse(status);
      JsonWriter json;
      json.BeginObject().Field("success", true).Field("model", model).Key("status").BeginObject();
      json.Field("value", change == ModelChange::kLoad ? "loaded" : "unloaded").EndObject().EndObject();
      return JsonResponse(json.Take());
    });
  }
  return Reported(std::move(answer), options, request, ignored.names());
}

}  // namespace

HttpResponse AnswerModelChange(const ChatService& service, ModelChange change, const std::string& model,
                               std::function<HttpResponse(const Status&)> answer) {
  HttpResponse response;
  response.later = std::make_shared<LateAnswer>();
  service.change_model(change, model, [late = response.later, answer = std::move(answer)](const Status& status) {
    late->Give([answer, status] { return answer(status); });
  });
  return response;
}

void AddModelChangeRoutes(Router& router, const ChatService& service) {
  for (const auto& [path, change] :
       {std::pair(kLoadPath, ModelChange::kLoad), std::pair(kUnloadPath, ModelChange::kUnload)}) {
    router.Add(
        "POST", path,
        [service, change = change](const HttpRequest& request, const Router::Parameters&) {
          return Change(service, change, request);
        },
        Scopes::Admin());
  }
}

std::vector<RequestKind> ModelChangeKinds() {
  return {{std::string("POST ") + kLoadPath, ModelTable().Describe()},
          {std::string("POST ") + kUnloadPath, ModelTable().Describe()}};
}

}  // namespace ringside
