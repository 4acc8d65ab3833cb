#include "session/table/session_table.h"

#include "base/limits.h"
#include "base/worker_pool.h"
#include "session/ids.h"
#include "session/table/table_state.h"

namespace ringside {
Status NoConversation(const std::string& id) {
  return NotFound("Conversation with id '" + id + "' not found.", "conversation", "conversation_not_found");
}
Status NoResponse(const std::string& id) {
  return NotFound("Response with id '" + id + "' not found.", "response_id", "response_not_found");
}

SessionTable::State::State(SessionTableOptions options, const Tokenizer& tokenizer, const ChatTemplate& chat,
                           TurnEngine& the_engine, Journal* the_journal, const Clock& clock)
    : context(MakeContext(std::move(options), tokenizer, chat, the_engine, the_journal, clock,
                          std::make_shared<SharedCounters>())),
      models(context),
      engine(the_engine),
      journal(the_journal),
      shared(*this, the_journal != nullptr ? the_journal->shared() : nullptr, clock) {}

SessionTable::SessionTable(SessionTableOptions options, const Tokenizer& tokenizer, const ChatTemplate& chat,
                           TurnEngine& engine, Journal* journal, const Clock& clock)
    : state_(std::make_unique<State>(std::move(options), tokenizer, chat, engine, journal, clock)) {}

SessionTable::~SessionTable() {
  if (state_->shared) state_->shared.Close();
  state_->WriteSummaries(/*last=*/true);
}

const SessionTableOptions& SessionTable::options() const { return state_->context->options; }
const Tokenizer& SessionTable::tokenizer() const { return state_->context->codec.tokenizer; }
int64_t SessionTable::conversations() const { return stats().conversations; }
SessionTableStats SessionTable::stats() const {
  std::lock_guard lock(state_->mutex);
  SessionTableStats out = state_->counts;
  out.interrupted = state_->context->shared->interrupted;
  return out;
}
void SessionTable::Post(std::function<void()> work) { state_->work.Post(std::move(work)); }

Status CheckWindow(const SessionTableOptions& options, const WindowOverrides& window) {
  if (window.memory_len && (*window.memory_len < 1 || *window.memory_len > options.memory_len)) {
    return InvalidArgument("memory_len must be in [1, " + std::to_string(options.memory_len) + "].",
                           "ringside.memory_len", "invalid_value");
  }
  if (window.session_len && (*window.session_len < 1 || *window.session_len > options.session_len)) {
    return InvalidArgument("session_len must be in [1, " + std::to_string(options.session_len) + "].",
                           "ringside.session_len", "invalid_value");
  }
  if (!options.NumberOfAdapter(window.adapter)) {
    constexpr size_t kQuoted = 256;
    return NotFound("This server has no adapter '" + window.adapter.substr(0, kQuoted) + "'.", "ringside.adapter",
                    "model_not_found");
  }
  return Status::Ok();
}

SessionInfo SessionTable::State::InfoOf(const Session& session) const {
  SessionInfo info = session.Info();
  if (journal != nullptr) info.damage = journal->DamageOf(session.key()).value_or("");
  if (info.tokens > 0) info.cache = engine.Where(session.cache_owner()).value_or(CacheSource::kNew);
  return info;
}

// Describes an unloaded session from its summary, without reading it, if the summary is current.
Result<SessionInfo> SessionTable::State::ListEntry(const std::string& key, const std::string& owner) {
  std::shared_ptr<Session> session;
  {
    std::lock_guard lock(mutex);
    const auto at = sessions.find(key);
    if (at == sessions.end()) return NoConversation(key);
    session = at->second.session;
  }
  if (session != nullptr) return InfoOf(*session);
  return DescribeStored(key, owner, journal->Summary(key));
}

Result<SessionInfo> SessionTable::State::DescribeStored(const std::string& key, const std::string& owner,
                                                        const Result<JournalSummary>& stored) {
  if (stored.status().code() == StatusCode::kNotFound) return NoConversation(key);
  if (!stored.ok() && stored.status().code() != StatusCode::kCorruption) return stored.status();
  const Result<SessionSummary> summary = stored.ok() ? DecodeSummary(stored->summary) : stored.status();
  auto damage = journal->DamageOf(key);
  if (!damage && summary.ok() && summary->seq != stored->last.seq) {
    const auto loaded = Get(key, owner, Use::kRead);
    if (loaded.ok()) shared ? shared.Refresh(key, owner) : (*loaded)->Changed();
    if (loaded.ok()) return InfoOf(**loaded);
    if (loaded.status().code() != StatusCode::kCorruption) return loaded.status();
    damage = journal->DamageOf(key);
  }
  SessionInfo info = summary.ok() ? Describe(*summary, models.Known(summary->window.model)->options) : SessionInfo{};
  info.id = key;
  info.durable = true;
  info.damage = damage.value_or("");
  if (stored.ok()) info.recorded = stored->last;
  if (info.tokens > 0) info.cache = engine.Where(key).value_or(CacheSource::kNew);
  return info;
}

void JoinParts(const SessionContext& model, std::vector<NewItem>* items) {
  const ChatTemplate& chat = model.codec.chat;
  for (NewItem& item : *items) {
    ringside::JoinParts(chat.part_separator(item.role), &item, chat.trims_parts(item.role));
  }
}

void SessionTable::State::WriteSummaries(bool last) {
  for (const std::weak_ptr<Session>& changed : context->shared->changed.Take()) {
    if (const std::shared_ptr<Session> session = changed.lock()) session->WriteSummary(last);
  }
}

Result<SessionInfo> SessionTable::CreateSession(const Caller& caller, Metadata metadata, const WindowOverrides& window,
                                                std::vector<NewItem> items) {
  std::shared_ptr<const SessionContext> model = state_->context;
  WindowOverrides own = window;
  if (!own.model.empty()) {
    ASSIGN_OR_RETURN(model, state_->models.Open(own.model));
    own.model = options().models != nullptr ? model->options.model_name : "";
  }
  RETURN_IF_ERROR(CheckWindow(model->options, own));
  RETURN_IF_ERROR(state_->MakeRoom(caller.principal));
  const HoldBytes hold = [&](int64_t bytes) { return state_->Hold(caller.principal, bytes); };
  RETURN_IF_ERROR(ReadImages(*model, caller.principal, hold, &items));
  JoinParts(*model, &items);
  auto session = std::make_shared<Session>(model, MakeId("conv_"), caller.principal, std::move(metadata), own);
  ASSIGN_OR_RETURN(const std::vector<Item> added, session->AddItems(caller.connection, std::move(items)));
  RETURN_IF_ERROR(state_->AddSession(session));
  return session->Info();
}

Result<SessionInfo> SessionTable::GetSession(const Caller& caller, const std::string& id) const {
  ASSIGN_OR_RETURN(const auto session, state_->Find(caller, id, State::Use::kRead));
  return state_->InfoOf(*session);
}

Result<std::vector<std::string>> SessionTable::ListIds(const std::string& owner, const std::string& after,
                                                       int64_t limit, bool* more) const {
  std::vector<std::string> ids;
  *more = false;
  if (state_->shared) {
    ASSIGN_OR_RETURN(const auto listed, state_->shared.List(owner, after, limit, more));
    for (const ListedSession& one : listed) ids.push_back(one.session);
    return ids;
  }
  std::lock_guard lock(state_->mutex);
  std::optional<uint64_t> before;
  if (!after.empty()) {
    const auto last = state_->sessions.find(after);
    if (last == state_->sessions.end() || last->second.owner != owner) return NoConversation(after);
    before = last->second.ordinal;
  }
  const auto known = state_->owners.find(owner);
  if (known == state_->owners.end()) return ids;
  const State::OwnersSessions& own = known->second;
  auto at = before ? std::make_reverse_iterator(own.lower_bound(*before)) : own.rbegin();
  for (; at != own.rend() && std::ssize(ids) < limit; ++at) ids.push_back(at->second);
  *more = at != own.rend();
  return ids;
}

Result<SessionPage> SessionTable::ListSessions(const Caller& caller, const std::string& after, int64_t limit) const {
  CHECK_GE(limit, 1);
  if (state_->shared) return state_->shared.ListPage(caller.principal, after, limit);
  SessionPage page;
  ASSIGN_OR_RETURN(const std::vector<std::string> found, ListIds(caller.principal, after, limit, &page.has_more));
  ASSIGN_OR_RETURN(const DiskWait wait, DiskWait::Begin());
  for (const std::string& id : found) {
    Result<SessionInfo> info = state_->ListEntry(id, caller.principal);
    if (info.ok()) {
      page.sessions.push_back(*std::move(info));
    } else if (info.status().code() != StatusCode::kNotFound) {  // deleted meanwhile
      return info.status();
    }
  }
  return page;
}

Result<SessionInfo> SessionTable::SetMetadata(const Caller& caller, const std::string& id, Metadata metadata) {
  ASSIGN_OR_RETURN(const auto session, state_->Find(caller, id));
  RETURN_IF_ERROR(state_->CheckDisk(caller.principal));
  RETURN_IF_ERROR(session->Edit([&](const Conversation&) { return EncodeMetadata(metadata); },
                                [&](Conversation* conversation) { conversation->metadata = std::move(metadata); }));
  return state_->InfoOf(*session);
}

Status SessionTable::DeleteSession(const Caller& caller, const std::string& id) {
  if (!id.starts_with("conv_")) return NoConversation(id);
  if (state_->shared) {
    RETURN_IF_ERROR(state_->shared.Claim(id, caller.principal));
    return state_->Delete(id);
  }
  {
    std::lock_guard lock(state_->mutex);
    const auto at = state_->sessions.find(id);
    if (at == state_->sessions.end() || at->second.owner != caller.principal) return NoConversation(id);
  }
  return state_->Delete(id);
}

Result<SharedList<Item>> SessionTable::GetItems(const Caller& caller, const std::string& id) const {
  ASSIGN_OR_RETURN(const auto session, state_->Find(caller, id, State::Use::kRead));
  return session->Items();
}

Result<std::vector<Item>> SessionTable::AddItems(const Caller& caller, const std::string& id,
                                                 std::vector<NewItem> items, const std::optional<std::string>& after) {
  ASSIGN_OR_RETURN(const auto session, state_->Find(caller, id));
  RETURN_IF_ERROR(state_->MakeRoom(caller.principal));
  const auto model = state_->models.Known(session->window().model);
  const HoldBytes hold = [&](int64_t bytes) { return state_->Hold(caller.principal, bytes); };
  RETURN_IF_ERROR(ReadImages(*model, caller.principal, hold, &items));
  JoinParts(*model, &items);
  return session->AddItems(caller.connection, std::move(items), after);
}

Result<int64_t> SessionTable::Rewind(const Caller& caller, const std::string& id, int64_t items) {
  ASSIGN_OR_RETURN(const auto session, state_->Find(caller, id));
  ASSIGN_OR_RETURN(const std::vector<std::string> undone, session->Rewind(caller.connection, items));
  state_->Forget(undone);
  return items;
}

Status SessionTable::DeleteItem(const Caller& caller, const std::string& id, const std::string& item) {
  ASSIGN_OR_RETURN(const auto session, state_->Find(caller, id));
  ASSIGN_OR_RETURN(const std::vector<std::string> undone, session->DeleteItem(caller.connection, item));
  state_->Forget(undone);
  return Status::Ok();
}

Result<SessionInfo> SessionTable::State::AddFork(const Caller& caller, const Session& from,
                                                 std::optional<int64_t> items, std::optional<Metadata> metadata) {
  RETURN_IF_ERROR(MakeRoom(caller.principal));
  ASSIGN_OR_RETURN(Timeline timeline, from.CopyTimeline(items));
  auto session = std::make_shared<Session>(models.Known(from.window().model), MakeId("conv_"), caller.principal,
                                           metadata ? std::move(*metadata) : from.Info().metadata, from.window());
  const TimelineId own = NextEngineId();
  const bool rendered = !timeline.tokens().empty();
  session->Adopt(std::move(timeline), own, from.cache_window());
  RETURN_IF_ERROR(AddSession(session));
  if (rendered) engine.Fork(from.engine_timeline(), own, from.cache_owner(), session->cache_owner());
  return InfoOf(*session);
}

Result<SessionInfo> SessionTable::Fork(const Caller& caller, const std::string& id, std::optional<int64_t> items,
                                       std::optional<Metadata> metadata) {
  ASSIGN_OR_RETURN(const auto session, state_->Find(caller, id));
  return state_->AddFork(caller, *session, items, std::move(metadata));
}

}  // namespace ringside
