// The table's turns and responses.
#include "session/ids.h"
#include "session/table_state.h"
#include "session/turn_sink.h"

namespace ringside {
namespace {

Status NoPreviousResponse(const std::string& id) {
  return InvalidArgument("Previous response with id '" + id + "' not found.", "previous_response_id",
                         "previous_response_not_found");
}

}  // namespace

Result<SessionTable::State::Target> SessionTable::State::FindTarget(const Caller& caller, const TurnSpec& spec) {
  Target target;
  if (!spec.conversation.empty()) {
    target.session = Find(caller, spec.conversation);
    if (target.session == nullptr) return NoConversation(spec.conversation);
  } else if (!spec.previous_response_id.empty()) {
    const std::optional<Entry> entry = FindResponse(caller, spec.previous_response_id);
    if (!entry) return NoPreviousResponse(spec.previous_response_id);
    target.parent = entry->session;
    const bool running = entry->session->Locked([&] {
      target.parent_items = entry->response->items_end;
      return entry->response->running();
    });
    if (running) {
      return Status{StatusCode::kBusy, "The previous response is still running.", "previous_response_id",
                    "response_not_completed"};
    }
    if (entry->session->id().empty()) {
      target.session = entry->session;
      target.head = spec.previous_response_id;
    } else {
      RETURN_IF_ERROR(ForkTarget(caller, &target));
    }
  } else {
    RETURN_IF_ERROR(CheckWindow(spec.window));
    target.session = NewChain(caller, spec.window);
  }
  return target;
}

// Makes the target a new chain that begins with the parent's timeline up to the previous response.
Status SessionTable::State::ForkTarget(const Caller& caller, Target* target) {
  ASSIGN_OR_RETURN(Timeline timeline, target->parent->CopyTimeline(static_cast<int64_t>(target->parent_items)));
  target->session = NewChain(caller, target->parent->window());
  target->head.clear();
  target->fork_from = target->parent->engine_timeline();
  target->fork_to = NextEngineId();
  target->session->Adopt(std::move(timeline), target->fork_to);
  return Status::Ok();
}

Result<TurnTicket> SessionTable::State::Reattach(const Caller& caller, const std::string& id,
                                                 const std::shared_ptr<EventSink>& sink) {
  const std::optional<Entry> entry = FindResponse(caller, id);
  if (!entry) return NoResponse(id);
  entry->session->Replay(*entry->response, 0, sink);
  return TurnTicket{id, true};
}

Result<Session::Prepared> SessionTable::State::Begin(const Caller& caller, const TurnSpec& spec, Target* target,
                                                     TurnId turn, const std::shared_ptr<Response>& response,
                                                     const std::shared_ptr<EventSink>& sink) {
  Result<Session::Prepared> prepared = target->session->Begin(spec, response, turn, sink, target->head);
  if (!prepared.ok() && prepared.status().code() == StatusCode::kMismatch) {
    RETURN_IF_ERROR(ForkTarget(caller, target));
    prepared = target->session->Begin(spec, response, turn, sink, "");
  }
  return prepared;
}

Result<TurnTicket> SessionTable::StartTurn(const Caller& caller, TurnSpec spec,
                                           const std::shared_ptr<EventSink>& sink) {
  State& state = *state_;
  for (const TimelineId timeline : state.context->retired->Take()) state.door.close(timeline);
  RETURN_IF_ERROR(spec.sampling.Validate(state.context->codec.tokenizer.vocab_size()));
  std::string key;
  if (!spec.request_key.empty()) {
    key = caller.principal + '\n' + spec.conversation + '\n' + spec.previous_response_id + '\n' + spec.request_key;
    if (!spec.store) key += '\n' + std::to_string(caller.connection);  // nobody else can see the first one's answer
    const std::string known = state.FindRequest(key);
    if (!known.empty()) return state.Reattach(caller, known, sink);
  }
  RETURN_IF_ERROR(state.MakeRoom());
  ASSIGN_OR_RETURN(State::Target target, state.FindTarget(caller, spec));

  auto response = std::make_shared<Response>();
  response->id = MakeId("resp_");
  response->item_id = MakeId("msg_");
  response->conversation_id = target.session->id();
  response->previous_id = spec.previous_response_id;
  response->echo = spec.echo;
  response->connection = spec.store ? 0 : caller.connection;
  response->warm_up = spec.warm_up;
  response->logprobs = spec.sampling.logprobs >= 0;
  const TurnId turn = NextEngineId();
  ASSIGN_OR_RETURN(Session::Prepared prepared, state.Begin(caller, spec, &target, turn, response, sink));
  state.Forget(prepared.forgotten);
  const std::string registered = state.Register({target.session, response, key});
  if (registered != response->id) {  // the same request came twice at once
    target.session->Abandon(turn);
    return state.Reattach(caller, registered, sink);
  }
  if (prepared.request.tokens.empty()) {
    target.session->FinishEmpty(turn);
    return TurnTicket{response->id, false};
  }
  if (target.fork_from != 0 && prepared.request.timeline == target.fork_to) {
    state.door.fork(target.fork_from, target.fork_to);
  }
  prepared.request.sink = std::make_shared<TurnSink>(target.session, turn);
  if (Status refused = state.door.submit(std::move(prepared.request)); !refused.ok()) {
    target.session->Abandon(turn);
    state.Forget({response->id});
    return refused;
  }
  target.session->Announce(turn);
  return TurnTicket{response->id, false};
}

Status SessionTable::Cancel(const Caller& caller, const std::string& response_id) {
  const auto entry = state_->FindResponse(caller, response_id);
  if (!entry) return NoResponse(response_id);
  if (const TurnId turn = entry->session->Running(response_id); turn != 0) state_->door.cancel(turn);
  return Status::Ok();
}

Status SessionTable::ReadResponse(const Caller& caller, const std::string& id,
                                  const std::function<void(const Response&)>& read) const {
  const auto entry = state_->FindResponse(caller, id);
  if (!entry) return NoResponse(id);
  entry->session->Locked([&] { read(*entry->response); });
  return Status::Ok();
}

Result<std::vector<Item>> SessionTable::GetInputItems(const Caller& caller, const std::string& response_id) const {
  const auto entry = state_->FindResponse(caller, response_id);
  if (!entry) return NoResponse(response_id);
  return entry->session->InputItems(*entry->response);
}

Status SessionTable::Replay(const Caller& caller, const std::string& response_id, int64_t after,
                            const std::shared_ptr<EventSink>& sink) {
  const auto entry = state_->FindResponse(caller, response_id);
  if (!entry) return NoResponse(response_id);
  entry->session->Replay(*entry->response, after + 1, sink);
  return Status::Ok();
}

Status SessionTable::DeleteResponse(const Caller& caller, const std::string& id) {
  const auto entry = state_->FindResponse(caller, id);
  if (!entry) return NoResponse(id);
  if (const TurnId turn = entry->session->Running(id); turn != 0) state_->door.cancel(turn);
  state_->Forget({id});
  entry->session->Forget(id);
  return Status::Ok();
}

void SessionTable::DropConnection(uint64_t connection) {
  std::vector<std::string> local;
  {
    std::lock_guard lock(state_->mutex);
    const auto at = state_->local_responses.find(connection);
    if (at == state_->local_responses.end()) return;
    local = std::move(at->second);
    state_->local_responses.erase(at);
  }
  for (const std::string& id : local) {
    std::optional<State::Entry> entry;
    {
      std::lock_guard lock(state_->mutex);
      const auto at = state_->responses.find(id);
      if (at != state_->responses.end()) entry = at->second;
    }
    if (!entry) continue;
    if (const TurnId turn = entry->session->Running(id); turn != 0) state_->door.cancel(turn);
    entry->session->Forget(id);
  }
  state_->Forget(local);
}

void SessionTable::Resume(const Caller& caller, const std::string& session, std::optional<uint64_t> epoch,
                          std::optional<uint64_t> after, const std::shared_ptr<EventSink>& sink) {
  std::shared_ptr<Session> found = state_->Find(caller, session);
  if (found == nullptr) {
    if (const auto entry = state_->FindResponse(caller, session)) found = entry->session;
  }
  if (found != nullptr) {
    found->Resume(session, epoch, after, sink);
    return;
  }
  ResumeReply reply;
  reply.session = session;
  reply.epoch = state_->context->epoch;
  sink->OnResumed(reply);
}

}  // namespace ringside
