// Handles server events in the link.
#include <utility>

#include "clients/wire/session_link_core.h"

namespace ringside::client {

using LinkKind = LinkEvent::Kind;

void SessionLink::Core::OnMessage(std::string_view message) {
  std::optional<ServerEvent> event = ParseServerEvent(message);
  if (!event) return;
  // Reset only now, not when the socket opened: a server that accepts and hangs up must not be retried forever.
  if (std::exchange(attempt_, 0) > 0) Tell({LinkKind::kRestored});
  switch (event->kind) {
    case ServerEvent::Kind::kResumed:
      return OnResumed(*event);
    case ServerEvent::Kind::kSnapshot:
      return OnSnapshot(std::move(*event));
    case ServerEvent::Kind::kRewound:
    case ServerEvent::Kind::kForked:
    case ServerEvent::Kind::kVerbFailed:
      return OnVerbEvent(std::move(*event));
    case ServerEvent::Kind::kError:
      return OnError(std::move(*event));
    case ServerEvent::Kind::kEvicted:
    case ServerEvent::Kind::kQueued:
    case ServerEvent::Kind::kDraining:
      return Tell({.kind = LinkKind::kNotice, .server = std::move(*event)});
    case ServerEvent::Kind::kCreated:
    case ServerEvent::Kind::kReasoning:
    case ServerEvent::Kind::kDelta:
    case ServerEvent::Kind::kFinished:
    case ServerEvent::Kind::kOther:
      return OnTurnEvent(std::move(*event));
  }
}

bool SessionLink::Core::IsNew(const ServerEvent& event) {
  if (!event.seq) return true;
  if (last_seq_ && *event.seq <= *last_seq_) return false;
  last_seq_ = *event.seq;
  return true;
}

void SessionLink::Core::Started(const std::string& response_id) {
  if (!response_id_.empty()) return;
  response_id_ = response_id;
  ServerEvent server;
  server.response_id = response_id;
  Tell({.kind = LinkKind::kStarted, .server = std::move(server)});
  if (std::exchange(cancel_wanted_, false)) socket_->Send(EncodeCancel(response_id_));
}

void SessionLink::Core::TellMissingReasoning(const std::string& whole) {
  if (!text_.empty() || whole.size() <= reasoning_.size() || !whole.starts_with(reasoning_)) return;
  Tell({.kind = LinkKind::kReasoning, .text = whole.substr(reasoning_.size())});
  reasoning_ = whole;
}

void SessionLink::Core::OnTurnEvent(ServerEvent event) {
  if (!IsNew(event) || job_ != Job::kTurn) return;
  switch (event.kind) {
    case ServerEvent::Kind::kCreated:
      return Started(event.response_id);
    case ServerEvent::Kind::kReasoning:
      if (response_id_.empty() || !text_.empty()) return;
      reasoning_ += event.text;
      return Tell({.kind = LinkKind::kReasoning, .text = std::move(event.text)});
    case ServerEvent::Kind::kDelta:
      if (response_id_.empty()) return;  // for another client's response
      // A call right after the reasoning begins the answer.
      if (text_.empty() && event.type == "response.output_item.added") event.text.erase(0, event.text.find('['));
      text_ += event.text;
      return Tell({.kind = LinkKind::kText, .text = std::move(event.text)});
    case ServerEvent::Kind::kFinished: {
      if (event.history) known_ = event.history;
      if (response_id_.empty() || event.response_id != response_id_) return;
      // The terminal event has the whole text: deliver any missing part.
      TellMissingReasoning(event.reasoning);
      if (event.text.size() > text_.size() && event.text.starts_with(text_)) {
        Tell({.kind = LinkKind::kText, .text = event.text.substr(text_.size())});
      }
      return Finish({.kind = LinkKind::kFinished, .server = std::move(event)});
    }
    default:
      return;
  }
}

void SessionLink::Core::OnResumed(const ServerEvent& event) {
  if (event.epoch) epoch_ = event.epoch;
  if (event.history) known_ = event.history;
  if (event.replay != ServerEvent::Replay::kEvents) {
    // Continue from the server's number, whatever was counted here.
    last_seq_.reset();
    if (event.next_seq && *event.next_seq > 0) last_seq_ = *event.next_seq - 1;
  }
  if (job_ != Job::kTurn) return;
  if (!event.session_present) {
    return Finish({.kind = LinkKind::kLost, .message = "The server no longer has this conversation."});
  }
  if (event.replay != ServerEvent::Replay::kNone) return;  // the missed events or a snapshot follow
  ServerEvent server;
  server.response_id = response_id_;
  Finish({.kind = LinkKind::kUnknown, .server = std::move(server)});
}

void SessionLink::Core::OnSnapshot(ServerEvent event) {
  if (event.next_seq && *event.next_seq > 0) last_seq_ = *event.next_seq - 1;
  if (job_ != Job::kTurn || event.response_id != response_id_) return;
  TellMissingReasoning(event.reasoning);
  if (event.text.starts_with(text_)) {
    std::string rest = event.text.substr(text_.size());
    if (!rest.empty()) Tell({.kind = LinkKind::kText, .text = std::move(rest)});
  } else {
    Tell({.kind = LinkKind::kRestarted, .text = event.text});
  }
  text_ = std::move(event.text);
}

void SessionLink::Core::OnVerbEvent(ServerEvent event) {
  if (job_ == Job::kTurn && event.verb == "resume" && event.error.code == "history_diverged") {
    known_.reset();
    return Finish({.kind = LinkKind::kLost,
                   .message = "The server's history of this conversation differs from what was shown here."});
  }
  if (job_ == Job::kTurn && event.verb == "resume") {
    return Finish({.kind = LinkKind::kUnknown, .server = {.response_id = response_id_}});
  }
  if (job_ != Job::kVerb) return;
  if (event.kind != ServerEvent::Kind::kVerbFailed) {
    return Finish({.kind = LinkKind::kVerbDone, .server = std::move(event)});
  }
  std::string message = event.error.message.empty() ? "The server refused it." : event.error.message;
  Finish({.kind = LinkKind::kVerbFailed, .message = std::move(message), .server = std::move(event)});
}

void SessionLink::Core::OnError(ServerEvent event) {
  std::string message = event.error.message.empty() ? "The server refused the request." : event.error.message;
  if (event.error.retry_after_ms > 0) {
    message += " Try again in " + std::to_string((event.error.retry_after_ms + 999) / 1000) + " s.";
  }
  if (job_ == Job::kVerb) {
    return Finish({.kind = LinkKind::kVerbFailed, .message = std::move(message), .server = std::move(event)});
  }
  if (job_ == Job::kTurn) {
    Finish({.kind = LinkKind::kRefused, .message = std::move(message), .server = std::move(event)});
  }
}

}  // namespace ringside::client
