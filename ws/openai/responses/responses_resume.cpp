// How a connection attaches to a session: by the verb, or by the query of its upgrade.
#include <atomic>
#include <charconv>
#include <utility>

#include "base/limits.h"
#include "ws/json/json_writer.h"
#include "ws/openai/responses/responses_fields.h"
#include "ws/openai/responses/responses_socket.h"
#include "ws/transport/http/http.h"

namespace ringside {
namespace {

/// 32 hexadecimal digits, as JournalChain::Hex writes them.
std::optional<JournalChain> ParseChain(std::string_view text) {
  JournalChain chain;
  if (text.size() != 32) return std::nullopt;
  for (const auto& [half, out] : {std::pair(text.substr(0, 16), &chain.high), {text.substr(16), &chain.low}}) {
    const auto [rest, error] = std::from_chars(half.data(), half.data() + half.size(), *out, 16);
    if (error != std::errc() || rest != half.data() + half.size()) return std::nullopt;
  }
  return chain;
}

Status BadChain(const char* name) {
  return InvalidArgument("A chain is written as 32 hexadecimal digits.", name, "invalid_value");
}

/// An optional count of an event, such as `after`.
Status ReadCount(const JsonValue& event, const char* name, std::optional<uint64_t>* out) {
  const JsonValue* value = event.Find(name);
  if (value == nullptr || value->is_null()) return Status::Ok();
  int64_t count = 0;
  RETURN_IF_ERROR(ReadInteger(*value, name, 0, INT64_MAX, &count));
  *out = static_cast<uint64_t>(count);
  return Status::Ok();
}

/// `known {seq, chain}`.
Status ReadKnown(const JsonValue& event, std::optional<JournalPosition>* out) {
  const JsonValue* known = event.Find("known");
  if (known == nullptr || known->is_null()) return Status::Ok();
  if (!known->is_object()) return WrongType(*known, "known", "an object");
  std::optional<uint64_t> seq;
  std::string chain;
  RETURN_IF_ERROR(ReadCount(*known, "seq", &seq));
  if (const JsonValue* text = known->Find("chain"); text != nullptr) {
    RETURN_IF_ERROR(ReadString(*text, "known.chain", &chain));
  }
  if (!seq || chain.empty()) {
    return InvalidArgument("'known' has a 'seq' and a 'chain'.", "known", "missing_required_parameter");
  }
  const std::optional<JournalChain> parsed = ParseChain(chain);
  if (!parsed) return BadChain("known.chain");
  *out = JournalPosition{*seq, *parsed};
  return Status::Ok();
}

Status ReadCount(const HttpRequest& request, const char* name, std::optional<uint64_t>* out) {
  const std::string_view text = request.Query(name);
  if (text.empty()) return Status::Ok();
  int64_t count = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc() || rest != text.data() + text.size() || count < 0) {
    return InvalidArgument("'" + std::string(name) + "' is a count.", name, "invalid_value");
  }
  *out = static_cast<uint64_t>(count);
  return Status::Ok();
}

Result<ResumeRequest> ReadQuery(const HttpRequest& request) {
  ResumeRequest resume;
  resume.session = request.Query("session");
  std::optional<uint64_t> seq;
  RETURN_IF_ERROR(ReadCount(request, "epoch", &resume.epoch));
  RETURN_IF_ERROR(ReadCount(request, "after", &resume.after));
  RETURN_IF_ERROR(ReadCount(request, "seq", &seq));
  const std::string_view chain = request.Query("chain");
  if (seq.has_value() != !chain.empty()) {
    return InvalidArgument("'seq' and 'chain' go together.", seq ? "chain" : "seq", "missing_required_parameter");
  }
  if (!seq) return resume;
  const std::optional<JournalChain> parsed = ParseChain(chain);
  if (!parsed) return BadChain("chain");
  resume.known = JournalPosition{*seq, *parsed};
  return resume;
}

}  // namespace

// Hears of one session, whoever starts its turns. Owned by the socket; the session holds it weakly.
class ResponsesSocket::Impl::ResumeSink final : public EventSink {
 public:
  ResumeSink(const std::shared_ptr<Impl>& socket, std::string stream_id)
      : outbox_(socket->outbox_),
        connection_(socket->caller_.connection),
        stream_id_(std::move(stream_id)),
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
    outbox_->Push(json.EndObject().Take());
  }

  void OnEvent(const TurnEvent& event) override { events_.Push(event); }
  void OnReplay(const ResponseCopies& responses, uint64_t from) override { events_.PushReplay(responses, from); }
  void OnSnapshot(const std::shared_ptr<const Response>& response) override { events_.PushSnapshot(response); }
  void OnQueued(const Response& response, int64_t position) override { events_.PushQueued(response, position); }
  void OnTakenOver(const std::string&) override {
    outbox_->Close(4409, "the session was resumed on another connection");
  }
  void OnGone(const std::string&) override { outbox_->Close(4410, "the session was deleted"); }
  uint64_t connection() const override { return connection_; }
  /// True once it is known that there is no such session.
  bool absent() const { return absent_; }

 private:
  std::atomic<bool> absent_{false};
  const std::shared_ptr<Outbox> outbox_;
  const uint64_t connection_;
  const std::string stream_id_;
  EventOutbox events_;
};

void ResponsesSocket::Impl::Resume(const JsonValue& event) {
  ResumeRequest request;
  const JsonValue* session = event.Find("session");
  Status bad = session == nullptr
                   ? InvalidArgument("Missing required parameter: 'session'.", "session", "missing_required_parameter")
                   : ReadString(*session, "session", &request.session);
  if (bad.ok() && request.session.size() > kMaxJournalSessionBytes) {
    bad = InvalidArgument("No session has so long an id.", "session", "string_above_max_length");
  }
  if (bad.ok()) bad = ReadCount(event, "epoch", &request.epoch);
  if (bad.ok()) bad = ReadCount(event, "after", &request.after);
  if (bad.ok()) bad = ReadKnown(event, &request.known);
  if (!bad.ok()) return FailVerb("resume", bad);
  const Result<std::string> stream = StreamId(event);
  if (!stream.ok()) return FailVerb("resume", stream.status());
  Attach(request, *stream);
}

void ResponsesSocket::Impl::Attach(const ResumeRequest& request, const std::string& stream_id) {
  auto sink = std::make_shared<ResumeSink>(shared_from_this(), stream_id);
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
  // There is nothing to say to each other where the two remember different conversations.
  if (resumed.code() == StatusCode::kMismatch) outbox_->Close(4412, "history diverged");
  if (resumed.ok() && !sink->absent()) return;
  std::lock_guard lock(mutex_);
  resumed_.erase(request.session);
}

SocketRoute ResponsesRoute(SessionTable& table, RetryAfter retry_after_ms, RunOnWorker run) {
  SocketRoute route;
  route.admit = [&table](const HttpRequest& request) -> Status {
    if (request.Query("session").empty()) return Status::Ok();
    ASSIGN_OR_RETURN(const ResumeRequest resume, ReadQuery(request));
    const Caller caller = CallerOf(request);
    const Result<SessionInfo> session = table.GetSession(caller, resume.session);
    if (session.status().code() != StatusCode::kNotFound) return session.status();
    return table.FindResponse(caller, resume.session).ok() ? Status::Ok() : session.status();
  };
  route.open = [&table, retry_after_ms, run](const HttpRequest& request, std::shared_ptr<Outbox> outbox) {
    const auto face = std::make_shared<ResponsesSocket>(table, request.principal, std::move(outbox), retry_after_ms,
                                                        run, request.trace);
    std::function<void()> attach;
    if (const Result<ResumeRequest> resume = ReadQuery(request); resume.ok() && !resume->session.empty()) {
      attach = [face, resume = *resume] { face->Attach(resume); };
    }
    return SocketFace{.on_opened = std::move(attach),
                      .on_message = [face](std::string_view message) { face->OnMessage(message); },
                      .on_closed = [face] { face->OnClosed(); },
                      .busy = [face] { return face->busy(); }};
  };
  return route;
}

}  // namespace ringside
