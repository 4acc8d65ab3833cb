#include "clients/wire/session_link_core.h"

#include <algorithm>
#include <utility>

namespace ringside::client {

SessionLink::Core::Core(IoRuntime& runtime, LinkOptions options, std::function<void(LinkEvent)> on_event)
    : runtime_(runtime), options_(std::move(options)), on_event_(std::move(on_event)) {}

void SessionLink::Core::Stop() {
  {
    std::lock_guard lock(told_mutex_);
    on_event_ = nullptr;
  }
  runtime_.Post([self = shared_from_this()] {
    self->job_ = Job::kNone;
    self->CloseSocket();
  });
}

void SessionLink::Core::StartTurn(const TurnRequest& turn) {
  response_id_.clear();
  text_.clear();
  reasoning_.clear();
  cancel_wanted_ = false;
  Begin(Job::kTurn, turn.conversation, EncodeTurn(turn));
}

void SessionLink::Core::StartVerb(const std::string& session, const std::string& frame) {
  Begin(Job::kVerb, session, frame);
}

void SessionLink::Core::Begin(Job job, const std::string& session, const std::string& frame) {
  if (session != session_) {
    session_ = session;
    last_seq_.reset();
    epoch_.reset();
    known_.reset();
  }
  job_ = job;
  ++job_number_;
  frame_ = frame;
  attempt_ = 0;
  if (open_) {
    socket_->Send(frame_);
  } else if (!socket_) {
    Connect();
  }
}

void SessionLink::Core::Connect() {
  const uint64_t connection = ++connection_;
  open_ = false;
  // Weak reference: if the runtime stops first, a strong one would leave a reference cycle.
  const auto mine = [weak = weak_from_this(), connection]() -> std::shared_ptr<Core> {
    std::shared_ptr<Core> self = weak.lock();
    return self && self->connection_ == connection ? self : nullptr;
  };
  Socket::Handlers handlers;
  handlers.on_open = [mine] {
    if (const std::shared_ptr<Core> core = mine()) core->OnOpen();
  };
  handlers.on_message = [mine](std::string_view message) {
    if (const std::shared_ptr<Core> core = mine()) core->OnMessage(message);
  };
  handlers.on_end = [mine](const SocketEnd& end) {
    if (const std::shared_ptr<Core> core = mine()) core->OnEnd(end);
  };
  socket_ = Socket::Open(runtime_, options_.url, options_.api_key, std::move(handlers));
}

void SessionLink::Core::OnOpen() {
  open_ = true;
  if (job_ == Job::kTurn && !response_id_.empty()) {
    socket_->Send(EncodeResume(session_, epoch_, last_seq_, known_));
  } else if (job_ != Job::kNone) {
    // Possibly a repetition: the request's id lets the server recognise a turn it has already started.
    socket_->Send(frame_);
  }
}

void SessionLink::Core::OnEnd(const SocketEnd& end) {
  socket_.reset();
  open_ = false;
  if (job_ == Job::kNone) return;
  if (!end.worth_retrying()) {
    std::string why = "The connection was refused: " + end.reason + ".";
    if (end.close_code == 4409) why = "Another client has taken over this conversation.";
    if (end.close_code == 4410) why = "The conversation was deleted.";
    if (end.close_code == 4412) why = "The server's history of this conversation differs from what was shown here.";
    if (end.close_code == 4404) why = "The server no longer has this conversation.";
    if (end.http_status == 401 || end.close_code == 4401) why = "The server refused the key (see --api-key).";
    Finish({.kind = LinkEvent::Kind::kLost, .message = why});
    return;
  }
  Retry(end.reason, end.retry_after_ms);
}

void SessionLink::Core::Retry(const std::string& reason, int64_t retry_after_ms) {
  if (attempt_ >= options_.max_attempts) {
    Finish({.kind = LinkEvent::Kind::kLost,
            .message = "Gave up after " + std::to_string(attempt_) + " attempts to reconnect: " + reason + "."});
    return;
  }
  const int64_t first = options_.first_delay.count();
  const int64_t longest = std::min(options_.longest_delay.count(), first << std::min(attempt_, 20));
  int64_t delay = std::uniform_int_distribution<int64_t>(first / 2, std::max(first, longest))(random_);
  delay = std::max(delay, retry_after_ms);
  ++attempt_;
  Tell({.kind = LinkEvent::Kind::kRetrying,
        .message = reason,
        .attempt = attempt_,
        .delay = std::chrono::milliseconds(delay)});
  runtime_.After(std::chrono::milliseconds(delay), [self = shared_from_this(), job = job_number_] {
    if (self->job_ != Job::kNone && self->job_number_ == job && !self->socket_) self->Connect();
  });
}

void SessionLink::Core::Cancel() {
  if (job_ == Job::kNone) return;
  if (!open_ || job_ == Job::kVerb) return Abandon();
  if (response_id_.empty()) {
    cancel_wanted_ = true;  // sent as soon as the response id is known
  } else {
    socket_->Send(EncodeCancel(response_id_));
  }
}

void SessionLink::Core::Abandon() {
  if (job_ == Job::kNone) return;
  CloseSocket();
  Finish({.kind = LinkEvent::Kind::kLost, .message = "Stopped waiting for the server."});
}

void SessionLink::Core::DropSocket() {
  CloseSocket();
  if (job_ != Job::kNone) Retry("dropped", 0);
}

void SessionLink::Core::CloseSocket() {
  ++connection_;
  open_ = false;
  if (socket_) std::exchange(socket_, nullptr)->Close();
}

void SessionLink::Core::Tell(LinkEvent event) {
  std::lock_guard lock(told_mutex_);
  if (on_event_) on_event_(std::move(event));
}

void SessionLink::Core::Finish(LinkEvent event) {
  job_ = Job::kNone;
  Tell(std::move(event));
}

}  // namespace ringside::client
