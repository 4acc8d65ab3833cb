#include "clients/wire/session_link.h"

#include "clients/wire/session_link_core.h"

namespace ringside::client {

bool LinkEvent::ends() const {
  switch (kind) {
    case Kind::kFinished:
    case Kind::kRefused:
    case Kind::kUnknown:
    case Kind::kVerbDone:
    case Kind::kVerbFailed:
    case Kind::kLost:
      return true;
    default:
      return false;
  }
}

SessionLink::SessionLink(IoRuntime& runtime, LinkOptions options, std::function<void(LinkEvent)> on_event)
    : core_(std::make_shared<Core>(runtime, std::move(options), std::move(on_event))) {}

SessionLink::~SessionLink() { core_->Stop(); }

void SessionLink::StartTurn(TurnRequest turn) {
  core_->runtime().Post([core = core_, turn = std::move(turn)] { core->StartTurn(turn); });
}

void SessionLink::Rewind(const std::string& session, int64_t to) {
  core_->runtime().Post([core = core_, session, to] { core->StartVerb(session, EncodeRewind(session, to)); });
}

void SessionLink::Fork(const std::string& session, std::optional<int64_t> at) {
  core_->runtime().Post([core = core_, session, at] { core->StartVerb(session, EncodeFork(session, at)); });
}

void SessionLink::Cancel() {
  core_->runtime().Post([core = core_] { core->Cancel(); });
}

void SessionLink::Abandon() {
  core_->runtime().Post([core = core_] { core->Abandon(); });
}

void SessionLink::DropSocket() {
  core_->runtime().Post([core = core_] { core->DropSocket(); });
}

}  // namespace ringside::client
