// Fields common to several protocols: models, metadata, labels and windows. Pure functions.
// THREAD: any.
// ERRORS: with the `param` of the faulty field.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "session/session_options.h"
#include "session/turn/turn_spec.h"
#include "ws/fields/field_table.h"
#include "ws/json/json_value.h"
#include "ws/transport/http/http.h"

namespace ringside {

/// The caller of a request that is independent of its connection.
inline Caller CallerOf(const HttpRequest& request) { return {request.principal, 0, request.trace}; }

/// Parses a map of strings within the limits for metadata.
Status ReadMetadata(const JsonValue& value, std::string_view param, Metadata* out);
/// As ReadMetadata, except that invalid entries are ignored unless strict.
Status ReadAnswerMetadata(const JsonValue& value, std::string_view param, IgnoredFields* ignored, Metadata* out);
/// Parses the body of a request, a JSON object. An empty body is {} with `may_be_empty`.
Result<JsonValue> ReadBody(const HttpRequest& request, bool may_be_empty = false);
/// True if a name is one of `aliases`, or matches one that ends in '*'.
bool IsAlias(std::string_view name, const std::vector<std::string>& aliases);
/// Resolves the requested model: the served one by its name or an alias (adapter ""), or an adapter. An empty name
/// leaves `adapter` unchanged.
/// ERRORS: kNotFound (model_not_found).
Status ReadModelName(std::string_view name, std::string_view param, const SessionTableOptions& options,
                     std::optional<std::string>* adapter);
/// ReadModelName of a string, which may end in ":latest".
Status ReadModel(const JsonValue& value, const std::string& param, const SessionTableOptions& options,
                 std::optional<std::string>* adapter);
/// Public name of the model or adapter that computes a turn.
const std::string& ModelNameOf(const std::optional<std::string>& adapter, const SessionTableOptions& options);

// Rows.
/// "model", a string.
Field<TurnSpec> ModelField();
/// The name of a conversation (NoteTimelineKey).
Field<TurnSpec> TimelineKeyField(std::string name);
/// The members of every client event of a WebSocket: its type and its id.
const Fields<void>& EventFields();
/// A count in a query, into an integer of R or an optional one. `what`: the rest of the sentence for the error.
template <class R, class T>
Field<R> QueryCountField(std::string name, T R::*member, std::string what = "a count");
/// Text about the user, without effect.
Field<void> LabelField(std::string name);
/// A list of output types that must be text only; `what`: for the error.
Field<void> TextOnlyField(std::string name, std::string what);
/// Conversation windows: "memory_len", "session_len", "eviction", "adapter", "model".
const FieldTable<WindowOverrides>& WindowTable();

/// The digits of a query as a count. ERRORS: "'after' is a count."
Result<int64_t> ReadQueryCount(const JsonValue& value, const std::string& param, const std::string& what);

template <class R, class T>
Field<R> QueryCountField(std::string name, T R::*member, std::string what) {
  const auto read = [member, what = std::move(what)](const JsonValue& value, const std::string& param,
                                                     const FieldContext&, R* out) -> Status {
    ASSIGN_OR_RETURN(const int64_t count, ReadQueryCount(value, param, what));
    out->*member = static_cast<uint64_t>(count);
    return Status::Ok();
  };
  return {std::move(name), FieldType::kInteger, read, FieldPolicy::kRead, "at least 0"};
}

}  // namespace ringside
