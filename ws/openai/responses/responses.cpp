#include "ws/openai/responses/responses.h"

#include "base/limits.h"
#include "session/ids.h"
#include "ws/content/asked_model.h"
#include "ws/content/compaction.h"
#include "ws/content/response_request.h"
#include "ws/fields/common_fields.h"
#include "ws/fields/ignored_report.h"
#include "ws/fields/request_size.h"
#include "ws/json/json_writer.h"
#include "ws/openai/responses/responses_socket.h"
#include "ws/transport/http/http.h"

namespace ringside {
namespace {

bool ValidStreamId(std::string_view id) {
  if (id.empty() || id.size() > static_cast<size_t>(limits::kMaxStreamIdBytes)) return false;
  return id.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-") ==
         std::string_view::npos;
}

struct CancelRequest {
  std::string response_id;
};

Status ReadResponseId(const JsonValue& value, const std::string& param, const FieldContext& context,
                      CancelRequest* request) {
  request->response_id = value.string();
  return value.is_string() ? Status::Ok() : context.ignored->Hint(param, "such a 'response_id'");
}

const FieldTable<CancelRequest>& CancelTable() {
  static const FieldTable<CancelRequest> table(
      Join(Fields<CancelRequest>{{"response_id", FieldType::kString, ReadResponseId, FieldPolicy::kLenient}},
           Fields<void>{{"stream_id", Silent{}}}, EventFields()));
  return table;
}

}  // namespace

Result<std::string> ResponsesSocket::Impl::StreamId(const JsonValue& event) {
  const JsonValue* id = event.Find("stream_id");
  if (id == nullptr) return std::string();
  if (id->is_string() && ValidStreamId(id->string())) return id->string();
  return InvalidArgument("A stream_id has 1 to 256 of the characters A-Z a-z 0-9 _ . -", "stream_id",
                         "invalid_stream_id");
}

// Receives the events of one turn on one lane. Owned by the lane; the session holds it weakly.
class ResponsesSocket::Impl::LaneSink final : public EventSink {
 public:
  LaneSink(const std::shared_ptr<Impl>& socket, std::string lane)
      : socket_(socket),
        connection_(socket->caller_.connection),
        lane_(std::move(lane)),
        events_(socket->Writer(lane_), socket->outbox_) {}
  const EventNumbers& numbers() const override { return kResponsesNumbers; }

  void OnEvent(const TurnEvent& event) override {
    const std::shared_ptr<Impl> socket = socket_.lock();
    if (socket == nullptr) return;
    events_.Push(event);
    if (event.kind == TurnEvent::Kind::kBegun) socket->OnCreated(lane_, *event.response);
    if (event.kind == TurnEvent::Kind::kEnded) socket->OnEnded(lane_, *event.response);
  }
  // A repeated request receives the first one's answer.
  void OnReplay(const ResponseCopies& responses, uint64_t from) override {
    const std::shared_ptr<Impl> socket = socket_.lock();
    if (socket == nullptr) return;
    events_.PushReplay(responses, from);
    socket->OnCreated(lane_, *responses.back());
    if (!responses.back()->running()) socket->OnEnded(lane_, *responses.back());
  }
  void OnQueued(const Response& response, int64_t position) override { events_.PushQueued(response, position); }
  uint64_t connection() const override { return connection_; }

 private:
  const std::weak_ptr<Impl> socket_;
  const uint64_t connection_;
  const std::string lane_;
  EventOutbox events_;
};

EventWriter ResponsesSocket::Impl::Writer(const std::string& stream_id) const {
  return {stream_id, EventWriter::Framing::kMessages};
}

ResponsesSocket::Impl::Impl(SessionTable& table, std::string principal, std::shared_ptr<Outbox> outbox,
                            RetryAfter retry_after_ms, RunOnWorker run, TraceContext trace)
    : table_(table),
      caller_{std::move(principal), NextConnection(), std::move(trace)},
      outbox_(std::move(outbox)),
      retry_after_ms_(std::move(retry_after_ms)),
      run_(std::move(run)) {}

void ResponsesSocket::Impl::PushError(const Status& status, const std::string& stream_id) {
  outbox_->Push(ErrorFrame(status, stream_id));
}

void ResponsesSocket::Impl::OnMessage(std::string_view message) {
  Result<JsonValue> parsed = ParseRequest(message);
  if (!parsed.ok()) return PushError(parsed.status(), "");
  const JsonValue& event = *parsed;
  if (!event.is_object()) {
    return PushError(InvalidArgument("An event must be a JSON object, not " + std::string(event.KindName()) + ".", "",
                                     "invalid_json"),
                     "");
  }
  const JsonValue* type = event.Find("type");
  if (type == nullptr || !type->is_string()) {
    const Result<std::string> stream = StreamId(event);
    return PushError(InvalidArgument("Missing required parameter: 'type'.", "type", "missing_required_parameter"),
                     stream.ok() ? *stream : "");
  }
  const std::string& name = type->string();
  if (name == "response.create") return Create(event, message);
  if (name == "response.cancel") return Cancel(event);
  if (name == "response.steer") return Steer(event);
  if (name == "ringside:session.resume") return Resume(event);
  if (name == "ringside:session.rewind") return Rewind(event);
  if (name == "ringside:session.compact") return Compact(event);
  if (name == "ringside:session.fork") return Fork(event);
  const Result<std::string> stream = StreamId(event);
  PushError(InvalidArgument("Unsupported event type: '" + name.substr(0, 256) + "'.", "type", "unsupported_event_type"),
            stream.ok() ? *stream : "");
}

void ResponsesSocket::Impl::Create(const JsonValue& body, std::string_view message) {
  const Result<std::string> stream = StreamId(body);
  if (!stream.ok()) return PushError(stream.status(), "");
  std::shared_ptr<LaneSink> sink;
  bool waits = false;
  {
    std::lock_guard lock(mutex_);
    const auto lane = lanes_.find(*stream);
    waits = in_flight_ >= static_cast<size_t>(limits::kMaxTurnsInFlightPerConnection) ||
            (lane != lanes_.end() && (lane->second.running || !lane->second.queue.empty()));
  }
  HeldBytes held;
  if (waits) {  // charged without the mutex, because conversations may be unloaded to make room
    Result<HeldBytes> counted = table_.Hold(caller_, static_cast<int64_t>(message.size()));
    if (!counted.ok()) return PushError(counted.status(), *stream);
    held = std::move(*counted);
  }
  {
    std::lock_guard lock(mutex_);
    if (closed_) return;
    const bool named = !stream->empty() && lanes_.find(*stream) == lanes_.end();
    const size_t names = lanes_.size() - lanes_.count("");
    if (named && names >= static_cast<size_t>(limits::kMaxLanesPerConnection)) {
      return PushError(InvalidArgument("A connection has at most " + std::to_string(limits::kMaxLanesPerConnection) +
                                           " distinct stream_ids.",
                                       "stream_id", "websocket_stream_limit_reached"),
                       *stream);
    }
    size_t queued = 0;
    for (const auto& [name, lane] : lanes_) queued += lane.queue.size();
    if (queued >= static_cast<size_t>(limits::kMaxQueuedCreatesPerConnection) ||
        !MayWait(queued_bytes_, message.size())) {
      return PushError(Overloaded("Too many requests wait on this connection."), *stream);
    }
    Lane& lane = lanes_[*stream];
    if (lane.queue.empty()) sink = Occupy(*stream, lane);
    if (sink == nullptr) {
      lane.queue.push_back({std::string(message), std::move(held)});
      queued_bytes_ += message.size();
    }
  }
  if (sink == nullptr || !Start(*stream, body, sink)) Pump(*stream);
}

// Starts the lane's queued requests until a turn runs.
void ResponsesSocket::Impl::Pump(const std::string& name) {
  while (StartNext(name)) {
  }
}

// True if a queued create was refused, so that the next one may be tried.
bool ResponsesSocket::Impl::StartNext(const std::string& name) {
  std::string next;
  std::shared_ptr<LaneSink> sink;
  {
    std::lock_guard lock(mutex_);
    if (closed_) return false;
    Lane& lane = lanes_[name];
    if (!lane.queue.empty()) sink = Occupy(name, lane);
    if (sink == nullptr) return false;
    next = std::move(lane.queue.front().message);
    lane.queue.pop_front();
    queued_bytes_ -= next.size();
  }
  return !Start(name, ParseJson(next).value(), sink);  // valid JSON: it was parsed on arrival
}

std::shared_ptr<ResponsesSocket::Impl::LaneSink> ResponsesSocket::Impl::Occupy(const std::string& name, Lane& lane) {
  if (lane.running) return nullptr;
  if (in_flight_ >= static_cast<size_t>(limits::kMaxTurnsInFlightPerConnection)) {
    if (!lane.waiting) waiting_.push_back(name);
    lane.waiting = true;
    return nullptr;
  }
  ++in_flight_;
  lane.running = true;
  lane.cancel_asked = false;
  lane.response_id.clear();
  lane.sink = std::make_shared<LaneSink>(shared_from_this(), name);
  return lane.sink;
}

// False if the create was refused; the lane is then free.
bool ResponsesSocket::Impl::Start(const std::string& name, const JsonValue& body,
                                  const std::shared_ptr<LaneSink>& sink) {
  Status refused;
  std::string parent;
  if (const JsonValue* previous = body.Find("previous_response_id"); previous != nullptr) parent = previous->string();
  IgnoredFields ignored(table_.options().strict_requests);
  const auto model = OptionsOf(table_, caller_, body);
  if (!model.ok()) {
    refused = model.status();
  } else if (Result<TurnSpec> spec = ReadCreate(body, **model, &ignored); !spec.ok()) {
    refused = spec.status();
  } else if (const Status compacted = CompactAndReport(table_, caller_, &*spec); !compacted.ok()) {
    refused = compacted;
  } else if (Result<TurnTicket> ticket = table_.StartTurn(caller_, std::move(*spec), sink); !ticket.ok()) {
    refused = ticket.status();
  }
  NoteIgnored(table_.options(), caller_.principal, ignored.names());
  if (refused.ok()) {
    std::unique_lock lock(mutex_);
    if (!closed_) return true;
    lock.unlock();
    table_.DropConnection(caller_.connection);  // it closed while the turn was being started
    return true;
  }
  outbox_->Push(ErrorFrame(refused, name, RetryAfterMs(retry_after_ms_, refused, caller_.principal)));
  bool evict = false;
  {
    std::lock_guard lock(mutex_);
    if (closed_) return true;
    Lane& lane = lanes_[name];
    evict = !parent.empty() && parent == lane.local_id;
    if (evict) lane.local_id.clear();
    Release(lane);
  }
  if (evict) (void)table_.DeleteResponse(caller_, parent);
  PumpWaiting();
  return false;
}

void ResponsesSocket::Impl::Release(Lane& lane) {
  lane.running = false;
  lane.sink.reset();
  lane.response_id.clear();
  --in_flight_;
}

// Retries the lane that has waited longest for a place.
void ResponsesSocket::Impl::PumpWaiting() {
  std::string name;
  {
    std::lock_guard lock(mutex_);
    if (waiting_.empty() || in_flight_ >= static_cast<size_t>(limits::kMaxTurnsInFlightPerConnection)) return;
    name = std::move(waiting_.front());
    waiting_.pop_front();
    lanes_[name].waiting = false;
  }
  Pump(name);
}

// Called inside a sink with the session's lock held, so the table must not be called here.
void ResponsesSocket::Impl::OnCreated(const std::string& name, const Response& response) {
  std::lock_guard lock(mutex_);
  const auto at = lanes_.find(name);
  if (closed_ || at == lanes_.end()) return;
  at->second.response_id = response.id;
  if (!at->second.cancel_asked) return;
  table_.Post([self = shared_from_this(), id = response.id] { (void)self->table_.Cancel(self->caller_, id); });
}

void ResponsesSocket::Impl::OnEnded(const std::string& name, const Response& response) {
  std::string stale;
  {
    std::lock_guard lock(mutex_);
    const auto at = lanes_.find(name);
    if (closed_ || at == lanes_.end()) return;
    Lane& lane = at->second;
    if (response.connection != 0) {
      stale = std::exchange(lane.local_id, response.id);
      if (stale == response.id) stale.clear();
    }
    Release(lane);
    if (stale.empty() && lane.queue.empty() && waiting_.empty()) return;
  }
  table_.Post([self = shared_from_this(), name, stale] {
    if (!stale.empty()) (void)self->table_.DeleteResponse(self->caller_, stale);
    self->PumpOnWorker(name);
  });
}

// Starting a turn renders and tokenizes, which takes long for long input: not on the table's thread.
void ResponsesSocket::Impl::PumpOnWorker(const std::string& name) {
  const auto pump = [self = shared_from_this(), name] {
    self->Pump(name);
    self->PumpWaiting();
  };
  if (!run_) return pump();
  size_t bytes = 0;
  {
    std::lock_guard lock(mutex_);
    const auto at = lanes_.find(name);
    if (closed_) return;
    if (at != lanes_.end() && !at->second.queue.empty()) bytes = at->second.queue.front().message.size();
  }
  const std::string& principal = caller_.principal;
  const std::string client = principal.empty() ? "lanes of " + std::to_string(caller_.connection) : principal;
  if (const Status refused = run_(client, bytes, pump); !refused.ok()) RefuseWaiting(name, refused);
}

// Refuses requests that no later event would start: those queued in a lane without a turn and, if nothing runs at all,
// in lanes that wait for a place. The end of a running turn retries all others.
void ResponsesSocket::Impl::RefuseWaiting(const std::string& name, const Status& status) {
  std::vector<std::string> refused;
  {
    std::lock_guard lock(mutex_);
    std::vector<std::string> left = {name};
    if (in_flight_ == 0) left.insert(left.end(), waiting_.begin(), waiting_.end());
    for (const std::string& each : left) {
      const auto at = lanes_.find(each);
      if (at == lanes_.end() || at->second.running || (at->second.waiting && in_flight_ > 0)) continue;
      for (const Queued& queued : at->second.queue) queued_bytes_ -= queued.message.size();
      refused.insert(refused.end(), at->second.queue.size(), each);
      at->second.queue.clear();
      at->second.waiting = false;
    }
    if (in_flight_ == 0) waiting_.clear();
  }
  for (const std::string& lane : refused) PushError(status, lane);
}

void ResponsesSocket::Impl::OnClosed() {
  std::map<std::string, Lane> lanes;
  std::map<std::string, std::shared_ptr<EventSink>> resumed;
  {
    std::lock_guard lock(mutex_);
    if (std::exchange(closed_, true)) return;
    lanes.swap(lanes_);
    resumed.swap(resumed_);
    waiting_.clear();
    in_flight_ = queued_bytes_ = 0;
  }
  // This is an io thread, and that may wait for a session or for the disk.
  table_.Post([&table = table_, connection = caller_.connection] { table.DropConnection(connection); });
}

bool ResponsesSocket::Impl::busy() const {
  std::lock_guard lock(mutex_);
  return in_flight_ > 0 || !waiting_.empty();
}

void ResponsesSocket::Impl::Cancel(const JsonValue& event) {
  // Reported as an error only if strict, because an error would end the lane's running answer.
  CancelRequest request;
  IgnoredFields ignored(table_.options().strict_requests);
  if (const Status bad = CancelTable().Read(event, {table_.options(), &ignored}, &request); !bad.ok()) {
    const Result<std::string> stream = StreamId(event);
    return PushError(bad, stream.ok() ? *stream : "");
  }
  NoteIgnored(table_.options(), caller_.principal, ignored.names());
  std::string id = request.response_id;
  if (event.Find("response_id") == nullptr) {
    const Result<std::string> stream = StreamId(event);
    std::lock_guard lock(mutex_);
    Lane* lane = nullptr;
    if (const auto at = lanes_.find(stream.ok() ? *stream : ""); at != lanes_.end()) lane = &at->second;
    if ((lane == nullptr || !lane->running) && event.Find("stream_id") == nullptr && in_flight_ == 1) {
      for (auto& [name, candidate] : lanes_) {
        if (candidate.running) lane = &candidate;
      }
    }
    if (lane == nullptr || !lane->running) return;
    id = lane->response_id;
    if (id.empty()) lane->cancel_asked = true;
  }
  if (!id.empty()) (void)table_.Cancel(caller_, id);
}

ResponsesSocket::ResponsesSocket(SessionTable& table, std::string principal, std::shared_ptr<Outbox> outbox,
                                 RetryAfter retry_after_ms, RunOnWorker run, TraceContext trace)
    : impl_(std::make_shared<Impl>(table, std::move(principal), std::move(outbox), std::move(retry_after_ms),
                                   std::move(run), std::move(trace))) {}
ResponsesSocket::~ResponsesSocket() { impl_->OnClosed(); }
void ResponsesSocket::OnMessage(std::string_view message) { impl_->OnMessage(message); }
void ResponsesSocket::OnClosed() { impl_->OnClosed(); }
void ResponsesSocket::Attach(const ResumeRequest& request, const std::vector<std::string>& ignored) {
  impl_->Attach(request, "", ignored);
}
bool ResponsesSocket::busy() const { return impl_->busy(); }

std::vector<RequestKind> ResponseRequestKinds() {
  std::vector<RequestKind> kinds = {CreateKind(/*http=*/false), {"response.cancel", CancelTable().Describe()}};
  for (const auto& more : {SessionVerbKinds(), ResumeKinds(), ResponseHttpKinds()}) {
    kinds.insert(kinds.end(), more.begin(), more.end());
  }
  return kinds;
}

}  // namespace ringside
