// Attaches a connection to a session: by the verb, or by the query of its upgrade.
#include <atomic>
#include <charconv>
#include <utility>

#include "base/limits.h"
#include "ws/fields/common_fields.h"
#include "ws/fields/field_table.h"
#include "ws/fields/ignored_report.h"
#include "ws/json/json_writer.h"
#include "ws/openai/responses/responses_socket.h"
#include "ws/transport/http/http.h"

namespace ringside {
namespace {

/// Parses 32 hexadecimal digits as written by JournalChain::Hex.
std::optional<JournalChain> ParseChain(std::string_view text) {
  JournalChain chain;
  if (text.size() != 32) return std::nullopt;
  for (const auto& [half, out] : {std::pair(text.substr(0, 16), &chain.high), {text.substr(16), &chain.low}}) {
    const auto [rest, error] = std::from_chars(half.data(), half.data() + half.size(), *out, 16);
    if (error != std::errc() || rest != half.data() + half.size()) return std::nullopt;
  }
  return chain;
}

/// The client's last known record: `known` of the verb, `seq` and `chain` of a query.
struct KnownRecord {
  std::optional<uint64_t> seq;
  std::optional<JournalChain> chain;
};

Status ReadChain(const JsonValue& value, const std::string& param, const FieldContext&, KnownRecord* known) {
  std::string text;
  RETURN_IF_ERROR(ReadString(value, param, &text));
  known->chain = ParseChain(text);
  if (known->chain) return Status::Ok();
  return InvalidArgument("A chain is written as 32 hexadecimal digits.", param, "invalid_value");
}

Status ReadSession(const JsonValue& value, const std::string& param, const FieldContext&, ResumeRequest* request) {
  RETURN_IF_ERROR(ReadString(value, param, &request->session));
  if (request->session.size() <= kMaxJournalSessionBytes) return Status::Ok();
  return InvalidArgument("No session has so long an id.", param, "string_above_max_length");
}

Status ReadKnown(const JsonValue& value, const std::string& param, const FieldContext& context, ResumeRequest* request);

const FieldTable<KnownRecord>& KnownTable() {
  static const FieldTable<KnownRecord> table(
      {{"seq", &KnownRecord::seq, Range{0}}, {"chain", FieldType::kString, ReadChain}});
  return table;
}

const FieldTable<ResumeRequest>& ResumeTable() {
  static const FieldTable<ResumeRequest> table(
      Join(Fields<ResumeRequest>{{"session", FieldType::kString, ReadSession},
                                 {"epoch", &ResumeRequest::epoch, Range{0}},
                                 {"after", &ResumeRequest::after, Range{0}},
                                 {"watch", &ResumeRequest::watch},
                                 {"known", FieldType::kObject, ReadKnown, FieldPolicy::kRead, KnownTable()}},
           Fields<void>{{"stream_id", Silent{}}}, EventFields()));
  return table;
}

Status ReadKnown(const JsonValue& value, const std::string& param, const FieldContext& context,
                 ResumeRequest* request) {
  if (!value.is_object()) return WrongType(value, param, "an object");
  KnownRecord known;
  RETURN_IF_ERROR(KnownTable().Read(value, context, &known, param + "."));
  if (!known.seq || !known.chain) {
    return InvalidArgument("'known' has a 'seq' and a 'chain'.", param, "missing_required_parameter");
  }
  request->known = JournalPosition{*known.seq, *known.chain};
  return Status::Ok();
}

struct ResumeQuery {
  ResumeRequest resume;
  KnownRecord known;
};

const FieldTable<ResumeQuery>& QueryTable() {
  static const FieldTable<ResumeQuery> table(Join(
      In(&ResumeQuery::resume, Fields<ResumeRequest>{{"session", FieldType::kString, ReadSession},
                                                     QueryCountField("epoch", &ResumeRequest::epoch),
                                                     QueryCountField("after", &ResumeRequest::after)}),
      In(&ResumeQuery::known,
         Fields<KnownRecord>{QueryCountField("seq", &KnownRecord::seq), {"chain", FieldType::kString, ReadChain}})));
  return table;
}

/// The session to resume; "" = none.
Result<ResumeRequest> ReadQuery(const HttpRequest& request, const SessionTableOptions& options,
                                IgnoredFields* ignored) {
  ResumeQuery query;
  RETURN_IF_ERROR(QueryTable().ReadQuery(request, {options, ignored}, &query));
  const KnownRecord& known = query.known;
  if (known.seq.has_value() != known.chain.has_value()) {
    return InvalidArgument("'seq' and 'chain' go together.", known.seq ? "chain" : "seq", "missing_required_parameter");
  }
  if (known.seq) query.resume.known = JournalPosition{*known.seq, *known.chain};
  return query.resume;
}

}  // namespace

// Receives a session's events, whoever starts its turns. Owned by the socket; the session holds it weakly.
class ResponsesSocket::Impl::ResumeSink final : public EventSink {
 public:
  ResumeSink(const std::shared_ptr<Impl>& socket, std::string stream_id, std::vector<std::string> ignored)
      : outbox_(socket->outbox_),
        connection_(socket->caller_.connection),
        stream_id_(std::move(stream_id)),
        ignored_(std::move(ignored)),
        events_(socket->Writer(stream_id_), socket->outbox_) {}

  const EventNumbers& numbers() const override { return kResponsesNumbers; }
  void OnResumed(const ResumeReply& reply) override {
    absent_ = !reply.present;
    static constexpr const char* kReplays[] = {"events", "snapshot", "none"};
    JsonWriter json;
    json.BeginObject().Field("type", "ringside:session.resumed").Field("session", reply.session);
    json.Field("session_present", reply.present).Field("epoch", reply.epoch).Field("next_seq", reply.next_seq);
    json.Field("replay", kReplays[static_cast<size_t>(reply.replay)]);
    json.Field("state", CacheSourceName(reply.state)).TextOrNull("active_response_id", reply.active_response_id);
    json.Field("kv_tokens", reply.kv_tokens);
    if (reply.recorded.seq > 0) {
      json.Key("position").BeginObject();
      WriteRecorded(json, reply.recorded);
      json.EndObject();
    }
    if (!stream_id_.empty()) json.Field("stream_id", stream_id_);
    WriteRingsideIgnored(json, ignored_);
    outbox_->Push(json.EndObject().Take());
  }

  void OnEvent(const TurnEvent& event) override { events_.Push(event); }
  void OnReplay(const ResponseCopies& responses, uint64_t from) override { events_.PushReplay(responses, from); }
  void OnSnapshot(const std::shared_ptr<const Response>& response) override { events_.PushSnapshot(response); }
  void OnQueued(const Response& response, int64_t position) override { events_.PushQueued(response, position); }
  void OnTakenOver(const std::string&) override {
    outbox_->Close(4409, "the session was resumed on another connection");
  }
  void OnChanged(const std::string& session) override {
    JsonWriter json;
    json.BeginObject().Field("type", "ringside:session.changed").Field("session", session);
    if (!stream_id_.empty()) json.Field("stream_id", stream_id_);
    outbox_->Push(json.EndObject().Take());
  }
  void OnGone(const std::string&) override { outbox_->Close(4410, "the session was deleted"); }
  uint64_t connection() const override { return connection_; }
  /// True once the session is known not to exist.
  bool absent() const { return absent_; }

 private:
  std::atomic<bool> absent_{false};
  const std::shared_ptr<Outbox> outbox_;
  const uint64_t connection_;
  const std::string stream_id_;
  const std::vector<std::string> ignored_;  // of the request
  EventOutbox events_;
};

void ResponsesSocket::Impl::Resume(const JsonValue& event) {
  ResumeRequest request;
  IgnoredFields ignored(table_.options().strict_requests);
  Status bad = ResumeTable().Read(event, {table_.options(), &ignored}, &request);
  if (bad.ok() && event.Find("session") == nullptr) bad = MissingParameter("session");
  if (!bad.ok()) return FailVerb("resume", bad);
  const Result<std::string> stream = StreamId(event);
  if (!stream.ok()) return FailVerb("resume", stream.status());
  Attach(request, *stream, ignored.names());
}

void ResponsesSocket::Impl::Attach(const ResumeRequest& request, const std::string& stream_id,
                                   const std::vector<std::string>& ignored) {
  NoteIgnored(table_.options(), caller_.principal, ignored);
  auto sink = std::make_shared<ResumeSink>(shared_from_this(), stream_id, ignored);
  std::shared_ptr<EventSink> replaced;
  {
    std::lock_guard lock(mutex_);
    if (closed_) return;
    if (resumed_.size() >= static_cast<size_t>(limits::kMaxResumedSessionsPerConnection) &&
        resumed_.find(request.session) == resumed_.end()) {
      return FailVerb("resume", Overloaded("This connection has resumed too many sessions."));
    }
    replaced = std::exchange(resumed_[request.session], sink);
  }
  const Status resumed = table_.Resume(caller_, request, sink);
  if (!resumed.ok()) FailVerb("resume", resumed);
  // The two sides remember different conversations, so the connection ends.
  if (resumed.code() == StatusCode::kMismatch) outbox_->Close(4412, "history diverged");
  if (resumed.ok() && !sink->absent()) return;
  std::lock_guard lock(mutex_);
  resumed_.erase(request.session);
}

SocketRoute ResponsesRoute(SessionTable& table, RetryAfter retry_after_ms, RunOnWorker run) {
  SocketRoute route;
  route.admit = [&table](const HttpRequest& request) -> Status {
    IgnoredFields ignored(table.options().strict_requests);
    ASSIGN_OR_RETURN(const ResumeRequest resume, ReadQuery(request, table.options(), &ignored));
    if (resume.session.empty()) return Status::Ok();
    const Caller caller = CallerOf(request);
    const Result<SessionInfo> session = table.GetSession(caller, resume.session);
    if (session.status().code() != StatusCode::kNotFound) return session.status();
    return table.FindResponse(caller, resume.session).ok() ? Status::Ok() : session.status();
  };
  route.open = [&table, retry_after_ms, run](const HttpRequest& request, std::shared_ptr<Outbox> outbox) {
    const auto face = std::make_shared<ResponsesSocket>(table, request.principal, std::move(outbox), retry_after_ms,
                                                        run, request.trace);
    std::function<void()> attach;
    IgnoredFields ignored(table.options().strict_requests);
    const Result<ResumeRequest> resume = ReadQuery(request, table.options(), &ignored);  // checked at admission
    if (resume.ok() && !resume->session.empty()) {
      attach = [face, resume = *resume, names = ignored.names()] { face->Attach(resume, names); };
    } else {
      NoteIgnored(table.options(), request.principal, ignored.names());
    }
    return SocketFace{.on_opened = std::move(attach),
                      .on_message = [face](std::string_view message) { face->OnMessage(message); },
                      .on_closed = [face] { face->OnClosed(); },
                      .busy = [face] { return face->busy(); }};
  };
  return route;
}

std::vector<RequestKind> ResumeKinds() {
  return {{"ringside:session.resume", ResumeTable().Describe()},
          {"GET /v1/responses (upgrade)", QueryTable().Describe()}};
}

}  // namespace ringside
