// Client events other than response.create: steer, and the session verbs.
#include "ws/content/compaction.h"
#include "ws/fields/common_fields.h"
#include "ws/fields/ignored_report.h"
#include "ws/json/json_text.h"
#include "ws/openai/responses/responses_socket.h"

namespace ringside {
namespace {

constexpr size_t kMaxInputGivenBack = 16 << 10;

/// A session verb; absent members were not given.
struct SessionVerb {
  std::string session, instructions;
  std::optional<int64_t> to, at;
  std::optional<Metadata> metadata;
};

Status ReadForkMetadata(const JsonValue& value, const std::string& param, const FieldContext&, SessionVerb* verb) {
  return ReadMetadata(value, param, &verb->metadata.emplace());
}

FieldTable<SessionVerb> VerbTable(const Fields<SessionVerb>& own) {
  return FieldTable<SessionVerb>(Join(Fields<SessionVerb>{{"session", &SessionVerb::session}}, own,
                                      Fields<void>{{"stream_id", Silent{}}}, EventFields()));
}

const FieldTable<SessionVerb>& RewindTable() {
  static const FieldTable<SessionVerb> table = VerbTable({{"to", &SessionVerb::to, Range{0}}});
  return table;
}

const FieldTable<SessionVerb>& CompactTable() {
  static const FieldTable<SessionVerb> table = VerbTable({{"instructions", &SessionVerb::instructions}});
  return table;
}

const FieldTable<SessionVerb>& ForkTable() {
  static const FieldTable<SessionVerb> table =
      VerbTable({{"at", &SessionVerb::at, Range{0}}, {"metadata", FieldType::kObject, ReadForkMetadata}});
  return table;
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
  // Returned as the protocol requires, unless it is large: the response must not grow with a refused input.
  JsonWriter input;
  const JsonValue* given = event.Find("input");
  WriteJson(input, given != nullptr ? *given : JsonValue());
  std::string text = input.Take();
  json.Key("input").Raw(text.size() <= kMaxInputGivenBack ? text : "null");
  json.EndObject().Field("sequence_number", 0);
  outbox_->Push(json.EndObject().Take());
}

void ResponsesSocket::Impl::Rewind(const JsonValue& event) {
  SessionVerb verb;
  IgnoredFields ignored(table_.options().strict_requests);
  Status bad = RewindTable().Read(event, {table_.options(), &ignored}, &verb);
  for (const char* required : {"session", "to"}) {
    if (bad.ok() && event.Find(required) == nullptr) bad = MissingParameter(required);
  }
  if (!bad.ok()) return FailVerb("rewind", bad);
  const Result<int64_t> kept = table_.Rewind(caller_, verb.session, *verb.to);
  if (!kept.ok()) return FailVerb("rewind", kept.status());
  JsonWriter json;
  json.BeginObject().Field("type", "ringside:session.rewound").Field("session", verb.session).Field("items", *kept);
  NoteIgnored(table_.options(), caller_.principal, ignored.names());
  WriteRingsideIgnored(json, ignored.names());
  outbox_->Push(json.EndObject().Take());
}

void ResponsesSocket::Impl::Compact(const JsonValue& event) {
  SessionVerb verb;
  IgnoredFields ignored(table_.options().strict_requests);
  Status bad = CompactTable().Read(event, {table_.options(), &ignored}, &verb);
  if (bad.ok() && event.Find("session") == nullptr) bad = MissingParameter("session");
  if (!bad.ok()) return FailVerb("compact", bad);
  NoteIgnored(table_.options(), caller_.principal, ignored.names());
  const Result<CompactionReport> report = CompactConversation(table_, caller_, verb.session, verb.instructions);
  if (!report.ok()) return FailVerb("compact", report.status());
  const Result<SessionInfo> info = table_.GetSession(caller_, verb.session);
  JsonWriter json;
  json.BeginObject().Field("type", "ringside:session.compacted").Field("session", verb.session);
  if (info.ok()) json.Field("items", info->items);
  WriteCompactionReport(json, *report);
  WriteRingsideIgnored(json, ignored.names());
  outbox_->Push(json.EndObject().Take());
}

void ResponsesSocket::Impl::Fork(const JsonValue& event) {
  SessionVerb verb;
  IgnoredFields ignored(table_.options().strict_requests);
  Status bad = ForkTable().Read(event, {table_.options(), &ignored}, &verb);
  if (bad.ok() && event.Find("session") == nullptr) bad = MissingParameter("session");
  if (!bad.ok()) return FailVerb("fork", bad);
  const Result<SessionInfo> fork = table_.Fork(caller_, verb.session, verb.at, std::move(verb.metadata));
  if (!fork.ok()) return FailVerb("fork", fork.status());
  JsonWriter json;
  json.BeginObject().Field("type", "ringside:session.forked").Field("session", fork->id).Field("from", verb.session);
  json.Field("items", fork->items);
  NoteIgnored(table_.options(), caller_.principal, ignored.names());
  WriteRingsideIgnored(json, ignored.names());
  outbox_->Push(json.EndObject().Take());
}

std::vector<RequestKind> SessionVerbKinds() {
  return {{"ringside:session.rewind", RewindTable().Describe()},
          {"ringside:session.compact", CompactTable().Describe()},
          {"ringside:session.fork", ForkTable().Describe()}};
}

}  // namespace ringside
