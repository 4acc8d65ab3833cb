#include "session/session_table.h"

#include "base/limits.h"
#include "session/ids.h"
#include "session/table_state.h"

namespace ringside {
namespace {

std::shared_ptr<const SessionContext> MakeContext(SessionTableOptions options, const Tokenizer& tokenizer,
                                                  const ChatTemplate& chat, const Clock& clock) {
  const Codec codec{tokenizer, chat, options.pinned_max};
  return std::make_shared<SessionContext>(SessionContext{std::move(options), codec, clock, RandomBits() >> 12,
                                                         std::make_shared<RetiredTimelines>(),
                                                         std::make_shared<std::atomic<int64_t>>(0)});
}

}  // namespace

Status NoConversation(const std::string& id) {
  return NotFound("Conversation with id '" + id + "' not found.", "conversation", "conversation_not_found");
}
Status NoResponse(const std::string& id) {
  return NotFound("Response with id '" + id + "' not found.", "response_id", "response_not_found");
}

SessionTable::State::State(SessionTableOptions options, const Tokenizer& tokenizer, const ChatTemplate& chat,
                           EngineDoor engine, const Clock& clock)
    : context(MakeContext(std::move(options), tokenizer, chat, clock)), door(std::move(engine)) {}

SessionTable::SessionTable(SessionTableOptions options, const Tokenizer& tokenizer, const ChatTemplate& chat,
                           EngineDoor door, const Clock& clock)
    : state_(std::make_unique<State>(std::move(options), tokenizer, chat, std::move(door), clock)) {}

SessionTable::~SessionTable() = default;

const SessionTableOptions& SessionTable::options() const { return state_->context->options; }
const Tokenizer& SessionTable::tokenizer() const { return state_->context->codec.tokenizer; }
int64_t SessionTable::conversations() const {
  std::lock_guard lock(state_->mutex);
  return static_cast<int64_t>(state_->sessions.size());
}
void SessionTable::Post(std::function<void()> work) { state_->work.Post(std::move(work)); }

std::shared_ptr<Session> SessionTable::State::Find(const Caller& caller, const std::string& id) {
  std::lock_guard lock(mutex);
  const auto at = sessions.find(id);
  if (at == sessions.end() || at->second.second->owner() != caller.principal) return nullptr;
  return at->second.second;
}

std::optional<SessionTable::State::Entry> SessionTable::State::FindResponse(const Caller& caller,
                                                                            const std::string& id) {
  std::lock_guard lock(mutex);
  const auto at = responses.find(id);
  if (at == responses.end()) return std::nullopt;
  const Entry& entry = at->second;
  if (entry.session->owner() != caller.principal) return std::nullopt;
  // `connection` is written before the response is registered and never again.
  if (entry.response->connection != 0 && entry.response->connection != caller.connection) return std::nullopt;
  return entry;
}

Status SessionTable::State::AddSession(const std::shared_ptr<Session>& session) {
  std::lock_guard lock(mutex);
  if (sessions.size() >= static_cast<size_t>(limits::kMaxSessions)) {
    return Overloaded("The server holds as many conversations as it can.");
  }
  const uint64_t ordinal = next_ordinal++;
  sessions.emplace(session->id(), std::pair(ordinal, session));
  owners[session->owner()].emplace(ordinal, session);
  return Status::Ok();
}

void SessionTable::State::ForgetLocked(const std::string& id) {
  const auto at = responses.find(id);
  if (at == responses.end()) return;
  if (!at->second.request_key.empty()) request_keys.erase(at->second.request_key);
  const auto local = local_responses.find(at->second.response->connection);
  if (local != local_responses.end()) std::erase(local->second, id);
  responses.erase(at);
}

void SessionTable::State::Forget(const std::vector<std::string>& ids) {
  std::lock_guard lock(mutex);
  for (const std::string& id : ids) ForgetLocked(id);
}

std::string SessionTable::State::Register(Entry entry) {
  const std::shared_ptr<Response> response = entry.response;
  std::lock_guard lock(mutex);
  if (!entry.request_key.empty()) {
    const auto [at, fresh] = request_keys.emplace(entry.request_key, response->id);
    if (!fresh) return at->second;
  }
  if (response->connection != 0) local_responses[response->connection].push_back(response->id);
  responses.emplace(response->id, std::move(entry));
  response_order.push_back(response->id);
  return response->id;
}

Status SessionTable::State::MakeRoom() {
  const int64_t budget = context->options.transcript_bytes;
  while (true) {
    const bool full = *context->bytes > budget;
    std::optional<Entry> oldest;
    {
      std::lock_guard lock(mutex);
      if (!full && responses.size() < static_cast<size_t>(limits::kMaxResponses)) break;
      if (response_order.empty()) break;
      const std::string id = std::move(response_order.front());
      response_order.pop_front();
      if (const auto at = responses.find(id); at != responses.end()) oldest = at->second;
      ForgetLocked(id);
    }
    if (oldest) oldest->session->Forget(oldest->response->id);
  }
  return *context->bytes > budget ? Overloaded("The server holds as much text as it can.") : Status::Ok();
}

std::string SessionTable::State::FindRequest(const std::string& key) {
  std::lock_guard lock(mutex);
  const auto at = request_keys.find(key);
  return at == request_keys.end() ? "" : at->second;
}

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
  RETURN_IF_ERROR(state_->MakeRoom());
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
  if (session == nullptr) return NoConversation(id);
  RETURN_IF_ERROR(state_->MakeRoom());
  return session->AddItems(std::move(items));
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
  RETURN_IF_ERROR(MakeRoom());
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

}  // namespace ringside
