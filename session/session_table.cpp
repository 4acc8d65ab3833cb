#include "session/session_table.h"

#include <map>
#include <mutex>
#include <unordered_map>

#include "base/limits.h"
#include "session/deferred_work.h"
#include "session/ids.h"
#include "session/session.h"
#include "session/turn_sink.h"

namespace ringside {
namespace {

constexpr size_t kMaxResponses = static_cast<size_t>(limits::kMaxSessions);

Status NoConversation(const std::string& id) {
  return NotFound("Conversation with id '" + id + "' not found.", "conversation", "conversation_not_found");
}
Status NoResponse(const std::string& id) {
  return NotFound("Response with id '" + id + "' not found.", "response_id", "response_not_found");
}
Status NoPreviousResponse(const std::string& id) {
  return InvalidArgument("Previous response with id '" + id + "' not found.", "previous_response_id",
                         "previous_response_not_found");
}

std::shared_ptr<const SessionContext> MakeContext(SessionTableOptions options, const Tokenizer& tokenizer,
                                                  const ChatTemplate& chat, const Clock& clock) {
  const Codec codec{tokenizer, chat, options.pinned_max};
  return std::make_shared<SessionContext>(
      SessionContext{std::move(options), codec, clock, RandomBits() >> 12, std::make_shared<RetiredTimelines>()});
}

}  // namespace

struct SessionTable::State {
  struct Entry {
    std::shared_ptr<Session> session;
    std::shared_ptr<Response> response;
    std::string request_key;
  };
  using OwnersSessions = std::map<uint64_t, std::shared_ptr<Session>>;  // by creation

  State(SessionTableOptions options, const Tokenizer& tokenizer, const ChatTemplate& chat, EngineDoor engine,
        const Clock& clock)
      : context(MakeContext(std::move(options), tokenizer, chat, clock)), door(std::move(engine)) {}

  const std::shared_ptr<const SessionContext> context;
  const EngineDoor door;

  // Look-ups only. Never held while a session's lock is taken.
  std::mutex mutex;
  std::unordered_map<std::string, std::pair<uint64_t, std::shared_ptr<Session>>> sessions;  // "conv_..."
  std::unordered_map<std::string, OwnersSessions> owners;
  uint64_t next_ordinal = 0;
  std::unordered_map<std::string, Entry> responses;  // "resp_..."
  std::deque<std::string> response_order;            // oldest first; ids forgotten earlier may linger
  std::unordered_map<std::string, std::string> request_keys;
  std::unordered_map<uint64_t, std::vector<std::string>> local_responses;  // by connection

  DeferredWork work;

  std::shared_ptr<Session> Find(const Caller& caller, const std::string& id) {
    std::lock_guard lock(mutex);
    const auto at = sessions.find(id);
    if (at == sessions.end() || at->second.second->owner() != caller.principal) return nullptr;
    return at->second.second;
  }

  std::optional<Entry> FindResponse(const Caller& caller, const std::string& id) {
    std::lock_guard lock(mutex);
    const auto at = responses.find(id);
    if (at == responses.end()) return std::nullopt;
    const Entry& entry = at->second;
    if (entry.session->owner() != caller.principal) return std::nullopt;
    // `connection` is written before the response is registered and never again.
    if (entry.response->connection != 0 && entry.response->connection != caller.connection) return std::nullopt;
    return entry;
  }

  Status AddSession(const std::shared_ptr<Session>& session) {
    std::lock_guard lock(mutex);
    if (sessions.size() >= static_cast<size_t>(limits::kMaxSessions)) {
      return Overloaded("The server holds as many conversations as it can.");
    }
    const uint64_t ordinal = next_ordinal++;
    sessions.emplace(session->id(), std::pair(ordinal, session));
    owners[session->owner()].emplace(ordinal, session);
    return Status::Ok();
  }

  void ForgetLocked(const std::string& id) {
    const auto at = responses.find(id);
    if (at == responses.end()) return;
    if (!at->second.request_key.empty()) request_keys.erase(at->second.request_key);
    const auto local = local_responses.find(at->second.response->connection);
    if (local != local_responses.end()) std::erase(local->second, id);
    responses.erase(at);
  }
  void Forget(const std::vector<std::string>& ids) {
    std::lock_guard lock(mutex);
    for (const std::string& id : ids) ForgetLocked(id);
  }

  // The response that a request key stands for already, or this one from now on.
  std::string Register(Entry entry) {
    const std::shared_ptr<Response> response = entry.response;
    std::lock_guard lock(mutex);
    if (!entry.request_key.empty()) {
      const auto [at, fresh] = request_keys.emplace(entry.request_key, response->id);
      if (!fresh) return at->second;
    }
    if (response->connection != 0) local_responses[response->connection].push_back(response->id);
    responses.emplace(response->id, std::move(entry));
    response_order.push_back(response->id);
    while (response_order.size() > kMaxResponses) {
      ForgetLocked(response_order.front());
      response_order.pop_front();
    }
    return response->id;
  }

  std::string FindRequest(const std::string& key) {
    std::lock_guard lock(mutex);
    const auto at = request_keys.find(key);
    return at == request_keys.end() ? "" : at->second;
  }

  // Where a turn runs.
  struct Target {
    std::shared_ptr<Session> session;
    std::string head;                       // the response that it must still end with
    TimelineId fork_from = 0, fork_to = 0;  // caches to copy
    std::shared_ptr<Session> parent;        // of `head`, to fork from if it went on
    size_t parent_items = 0;
  };
  Result<Target> FindTarget(const Caller& caller, const TurnSpec& spec);
  Status ForkTarget(const Caller& caller, Target* target);
  std::shared_ptr<Session> NewChain(const Caller& caller, const WindowOverrides& window) {
    return std::make_shared<Session>(context, "", caller.principal, Metadata{}, window);
  }
  Status CheckWindow(const WindowOverrides& window) const;
  Result<TurnTicket> Reattach(const Caller& caller, const std::string& id, const std::shared_ptr<EventSink>& sink);
  Result<Session::Prepared> Begin(const Caller& caller, const TurnSpec& spec, Target* target, TurnId turn,
                                  const std::shared_ptr<Response>& response, const std::shared_ptr<EventSink>& sink);
  Result<SessionInfo> AddFork(const Caller& caller, const Session& from, std::optional<int64_t> items);
};

SessionTable::SessionTable(SessionTableOptions options, const Tokenizer& tokenizer, const ChatTemplate& chat,
                           EngineDoor door, const Clock& clock)
    : state_(std::make_unique<State>(std::move(options), tokenizer, chat, std::move(door), clock)) {}

SessionTable::~SessionTable() = default;

const SessionTableOptions& SessionTable::options() const { return state_->context->options; }
const Tokenizer& SessionTable::tokenizer() const { return state_->context->codec.tokenizer; }
void SessionTable::Post(std::function<void()> work) { state_->work.Post(std::move(work)); }

Status SessionTable::State::CheckWindow(const WindowOverrides& window) const {
  const SessionTableOptions& options = context->options;
  if (window.memory_len && (*window.memory_len < 1 || *window.memory_len > options.memory_len)) {
    return InvalidArgument("memory_len must lie in [1, " + std::to_string(options.memory_len) + "].",
                           "ringside.memory_len", "invalid_value");
  }
  if (window.session_len && (*window.session_len < 1 || *window.session_len > options.session_len)) {
    return InvalidArgument("session_len must lie in [1, " + std::to_string(options.session_len) + "].",
                           "ringside.session_len", "invalid_value");
  }
  return Status::Ok();
}

Result<SessionInfo> SessionTable::CreateSession(const Caller& caller, Metadata metadata, const WindowOverrides& window,
                                                std::vector<NewItem> items) {
  RETURN_IF_ERROR(state_->CheckWindow(window));
  auto session =
      std::make_shared<Session>(state_->context, MakeId("conv_"), caller.principal, std::move(metadata), window);
  ASSIGN_OR_RETURN(const std::vector<Item> added, session->AddItems(std::move(items)));
  RETURN_IF_ERROR(state_->AddSession(session));
  return session->Info();
}

Result<SessionInfo> SessionTable::GetSession(const Caller& caller, const std::string& id) const {
  const auto session = state_->Find(caller, id);
  return session == nullptr ? Result<SessionInfo>(NoConversation(id)) : session->Info();
}

Result<SessionPage> SessionTable::ListSessions(const Caller& caller, const std::string& after, int64_t limit) const {
  CHECK_GE(limit, 1);
  std::vector<std::shared_ptr<Session>> found;
  SessionPage page;
  {
    std::lock_guard lock(state_->mutex);
    std::optional<uint64_t> before;
    if (!after.empty()) {
      const auto last = state_->sessions.find(after);
      if (last == state_->sessions.end() || last->second.second->owner() != caller.principal) {
        return NoConversation(after);
      }
      before = last->second.first;
    }
    const auto owner = state_->owners.find(caller.principal);
    if (owner != state_->owners.end()) {
      const State::OwnersSessions& own = owner->second;
      auto at = before ? std::make_reverse_iterator(own.lower_bound(*before)) : own.rbegin();
      for (; at != own.rend() && static_cast<int64_t>(found.size()) < limit; ++at) found.push_back(at->second);
      page.has_more = at != own.rend();
    }
  }
  for (const auto& session : found) page.sessions.push_back(session->Info());
  return page;
}

Result<SessionInfo> SessionTable::SetMetadata(const Caller& caller, const std::string& id, Metadata metadata) {
  const auto session = state_->Find(caller, id);
  if (session == nullptr) return NoConversation(id);
  session->SetMetadata(std::move(metadata));
  return session->Info();
}

Status SessionTable::DeleteSession(const Caller& caller, const std::string& id) {
  const auto session = state_->Find(caller, id);
  if (session == nullptr) return NoConversation(id);
  {
    std::lock_guard lock(state_->mutex);
    const auto at = state_->sessions.find(id);
    if (at == state_->sessions.end()) return NoConversation(id);
    const auto owner = state_->owners.find(session->owner());
    owner->second.erase(at->second.first);
    if (owner->second.empty()) state_->owners.erase(owner);
    state_->sessions.erase(at);
  }
  if (const TurnId turn = session->Running(""); turn != 0) state_->door.cancel(turn);
  state_->Forget(session->ResponseIds());
  return Status::Ok();
}

Result<std::vector<Item>> SessionTable::GetItems(const Caller& caller, const std::string& id) const {
  const auto session = state_->Find(caller, id);
  return session == nullptr ? Result<std::vector<Item>>(NoConversation(id)) : session->Items();
}

Result<std::vector<Item>> SessionTable::AddItems(const Caller& caller, const std::string& id,
                                                 std::vector<NewItem> items) {
  const auto session = state_->Find(caller, id);
  return session == nullptr ? Result<std::vector<Item>>(NoConversation(id)) : session->AddItems(std::move(items));
}

Result<int64_t> SessionTable::Rewind(const Caller& caller, const std::string& id, int64_t items) {
  const auto session = state_->Find(caller, id);
  if (session == nullptr) return NoConversation(id);
  ASSIGN_OR_RETURN(const std::vector<std::string> undone, session->Rewind(items));
  state_->Forget(undone);
  return items;
}

Status SessionTable::DeleteItem(const Caller& caller, const std::string& id, const std::string& item) {
  const auto session = state_->Find(caller, id);
  if (session == nullptr) return NoConversation(id);
  ASSIGN_OR_RETURN(const std::vector<std::string> undone, session->DropLastItem(item));
  state_->Forget(undone);
  return Status::Ok();
}

Result<SessionInfo> SessionTable::State::AddFork(const Caller& caller, const Session& from,
                                                 std::optional<int64_t> items) {
  ASSIGN_OR_RETURN(Timeline timeline, from.CopyTimeline(items));
  auto session = std::make_shared<Session>(context, MakeId("conv_"), caller.principal, from.metadata(), from.window());
  const TimelineId own = NextEngineId();
  const bool rendered = !timeline.tokens().empty();
  session->Adopt(std::move(timeline), own);
  RETURN_IF_ERROR(AddSession(session));
  if (rendered && from.engine_timeline() != 0) door.fork(from.engine_timeline(), own);
  return session->Info();
}

Result<SessionInfo> SessionTable::Fork(const Caller& caller, const std::string& id, std::optional<int64_t> items) {
  const auto session = state_->Find(caller, id);
  return session == nullptr ? Result<SessionInfo>(NoConversation(id)) : state_->AddFork(caller, *session, items);
}

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
