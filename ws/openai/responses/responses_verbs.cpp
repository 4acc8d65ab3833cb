// The verbs beside response.create: steer, and those of sessions.
#include <algorithm>

#include "ws/fields/ignored_report.h"
#include "ws/json/json_text.h"
#include "ws/openai/compaction.h"
#include "ws/openai/responses/responses_fields.h"
#include "ws/openai/responses/responses_socket.h"

namespace ringside {
namespace {

constexpr size_t kMaxInputGivenBack = 16 << 10;

// The session that a verb names.
Status ReadSession(const JsonValue& event, std::string* session) {
  const JsonValue* value = event.Find("session");
  if (value == nullptr) {
    return InvalidArgument("Missing required parameter: 'session'.", "session", "missing_required_parameter");
  }
  return ReadString(*value, "session", session);
}

/// Members of an event that neither all verbs have nor `known` lists.
Status ReadOthers(const JsonValue& event, std::initializer_list<std::string_view> known, IgnoredFields* ignored) {
  for (const auto& [key, value] : event.object()) {
    const bool common = key == "type" || key == "event_id" || key == "stream_id" || key == "session";
    if (value.is_null() || common || std::ranges::find(known, key) != known.end()) continue;
    RETURN_IF_ERROR(ignored->Unknown(key));
  }
  return Status::Ok();
}

// An optional count, such as `after`.
Status ReadCount(const JsonValue& event, const char* name, std::optional<int64_t>* out) {
  const JsonValue* value = event.Find(name);
  if (value == nullptr) return Status::Ok();
  int64_t count = 0;
  RETURN_IF_ERROR(ReadInteger(*value, name, 0, INT64_MAX, &count));
  *out = count;
  return Status::Ok();
}

}  // namespace

void ResponsesSocket::Impl::FailVerb(const char* verb, const Status& status) {
  JsonWriter json;
  json.BeginObject().Field("type", "ringside:session.failed").Field("verb", verb);
  outbox_->Push(json.Key("error").Raw(ErrorObject(status)).EndObject().Take());
}

void ResponsesSocket::Impl::Steer(const JsonValue& event) {
  JsonWriter json;
  json.BeginObject().Field("type", "response.steer.failed").Key("error").BeginObject();
  json.Field("type", "invalid_request_error").Field("code", "steering_not_supported");
  json.Field("message", "This server does not support steering. Cancel the response and create another.").EndObject();
  json.Key("steer").BeginObject().Key("previous_response_id");
  const JsonValue* previous = event.Find("previous_response_id");
  const bool named = previous != nullptr && previous->is_string() && previous->string().size() <= kMaxInputGivenBack;
  json.Value(named ? previous->string() : "");
  // Given back, as the protocol has it, unless it is large: an answer does not grow with what it refuses.
  JsonWriter input;
  const JsonValue* given = event.Find("input");
  WriteJson(input, given != nullptr ? *given : JsonValue());
  std::string text = input.Take();
  json.Key("input").Raw(text.size() <= kMaxInputGivenBack ? text : "null");
  json.EndObject().Field("sequence_number", 0);
  outbox_->Push(json.EndObject().Take());
}

void ResponsesSocket::Impl::Rewind(const JsonValue& event) {
  std::string session;
  std::optional<int64_t> to;
  if (Status bad = ReadSession(event, &session); !bad.ok()) return FailVerb("rewind", bad);
  if (Status bad = ReadCount(event, "to", &to); !bad.ok()) return FailVerb("rewind", bad);
  if (!to) {
    return FailVerb("rewind", InvalidArgument("Missing required parameter: 'to'.", "to", "missing_required_parameter"));
  }
  IgnoredFields ignored(table_.options().strict_requests);
  if (Status bad = ReadOthers(event, {"to"}, &ignored); !bad.ok()) return FailVerb("rewind", bad);
  const Result<int64_t> kept = table_.Rewind(caller_, session, *to);
  if (!kept.ok()) return FailVerb("rewind", kept.status());
  JsonWriter json;
  json.BeginObject().Field("type", "ringside:session.rewound").Field("session", session).Field("items", *kept);
  NoteIgnored(table_.options(), caller_.principal, ignored.names());
  WriteRingsideIgnored(json, ignored.names());
  outbox_->Push(json.EndObject().Take());
}

void ResponsesSocket::Impl::Compact(const JsonValue& event) {
  std::string session, instructions;
  if (Status bad = ReadSession(event, &session); !bad.ok()) return FailVerb("compact", bad);
  if (const JsonValue* given = event.Find("instructions"); given != nullptr) {
    if (Status bad = ReadString(*given, "instructions", &instructions); !bad.ok()) return FailVerb("compact", bad);
  }
  IgnoredFields ignored(table_.options().strict_requests);
  if (Status bad = ReadOthers(event, {"instructions"}, &ignored); !bad.ok()) return FailVerb("compact", bad);
  const Result<CompactionReport> report = CompactConversation(table_, caller_, session, instructions);
  if (!report.ok()) return FailVerb("compact", report.status());
  const Result<SessionInfo> info = table_.GetSession(caller_, session);
  JsonWriter json;
  json.BeginObject().Field("type", "ringside:session.compacted").Field("session", session);
  if (info.ok()) json.Field("items", info->items);
  WriteCompactionReport(json, *report);
  NoteIgnored(table_.options(), caller_.principal, ignored.names());
  WriteRingsideIgnored(json, ignored.names());
  outbox_->Push(json.EndObject().Take());
}

void ResponsesSocket::Impl::Fork(const JsonValue& event) {
  std::string session;
  std::optional<int64_t> at;
  if (Status bad = ReadSession(event, &session); !bad.ok()) return FailVerb("fork", bad);
  if (Status bad = ReadCount(event, "at", &at); !bad.ok()) return FailVerb("fork", bad);
  std::optional<Metadata> metadata;
  if (const JsonValue* given = event.Find("metadata"); given != nullptr && !given->is_null()) {
    if (Status bad = ReadMetadata(*given, "metadata", &metadata.emplace()); !bad.ok()) return FailVerb("fork", bad);
  }
  IgnoredFields ignored(table_.options().strict_requests);
  if (Status bad = ReadOthers(event, {"at", "metadata"}, &ignored); !bad.ok()) return FailVerb("fork", bad);
  const Result<SessionInfo> fork = table_.Fork(caller_, session, at, std::move(metadata));
  if (!fork.ok()) return FailVerb("fork", fork.status());
  JsonWriter json;
  json.BeginObject().Field("type", "ringside:session.forked").Field("session", fork->id).Field("from", session);
  json.Field("items", fork->items);
  NoteIgnored(table_.options(), caller_.principal, ignored.names());
  WriteRingsideIgnored(json, ignored.names());
  outbox_->Push(json.EndObject().Take());
}

}  // namespace ringside
