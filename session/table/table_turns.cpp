// The table's turns and responses.
#include <fmt/format.h>

#include <algorithm>

#include "base/request_watch.h"
#include "base/worker_pool.h"
#include "engine/grammar/grammar_cache.h"
#include "session/ids.h"
#include "session/table/table_state.h"
#include "session/table/turn_sink.h"

namespace ringside {
namespace {

Status NoPreviousResponse(const std::string& id) {
  return InvalidArgument("Previous response with id '" + id + "' not found.", "previous_response_id",
                         "previous_response_not_found");
}

std::string RequestKey(const Caller& caller, const TurnSpec& spec) {
  // Keys are kept for a while, even those of refused requests, so their length is bounded.
  constexpr size_t kMaxIdBytes = 256;  // longer than any id
  if (spec.request_key.empty() || spec.conversation.size() > kMaxIdBytes ||
      spec.previous_response_id.size() > kMaxIdBytes) {
    return "";
  }
  std::string key =
      caller.principal + '\n' + spec.conversation + '\n' + spec.previous_response_id + '\n' + spec.request_key;
  if (!spec.store) key += '\n' + std::to_string(caller.connection);  // only this connection can see the first answer
  return key;
}

/// Resolves the answer's form: from the request, or from the answer that is continued.
Status ChooseForm(const Session& session, TurnSpec* spec) {
  AnswerForm form;
  const bool continues_answer = spec->input.empty() && !spec->warm_up && !spec->raw;
  if (continues_answer && !(spec->format && spec->tool_choice)) {
    const SharedList<Item> items = session.Items();
    const SharedText cut = items.empty() ? SharedText() : items.back().form;  // of the last answer if that was cut
    ASSIGN_OR_RETURN(form, DecodeAnswerForm(std::string_view(cut)));
  }
  if (!spec->format) spec->format = std::move(form.format);
  if (!spec->tool_choice) spec->tool_choice = std::move(form.choice);
  return Status::Ok();
}

/// Resolves the tools that the answer may call: the request's, or the session's.
Status ChooseTools(const Session& session, ToolSyntaxName syntax, TurnSpec* spec) {
  const ToolChoice& choice = *spec->tool_choice;
  ToolCallRules rules;
  rules.syntax = syntax;
  rules.tools = spec->tools ? spec->tools->lines : std::string(session.Tools());
  if (rules.tools.empty()) {
    if (choice.mode != ToolChoice::Mode::kRequired && choice.names.empty()) return Status::Ok();
    return InvalidArgument("tool_choice requires tools.", "tool_choice", "invalid_value");
  }
  if (spec->tools) {
    rules.strict = spec->tools->strict;
    rules.places = spec->tools->places;
    rules.schema_param = spec->tools->schema_param;
  }
  rules.names = choice.names;
  rules.may_call = choice.mode != ToolChoice::Mode::kNone;
  rules.must_call = choice.mode == ToolChoice::Mode::kRequired;
  rules.several = choice.takes_several();
  const AnswerFormat::Kind kind = spec->format->kind;
  if (rules.may_call && (kind == AnswerFormat::Kind::kRegex || kind == AnswerFormat::Kind::kGbnf)) {
    return InvalidArgument("An answer constrained by a regular expression or a grammar cannot call tools.",
                           spec->format->param, "mutually_exclusive_parameters");
  }
  spec->format->calls = std::make_shared<const ToolCallRules>(std::move(rules));
  return Status::Ok();
}

/// Reads a prompt's tokens, or the images and parts of messages.
Status ReadInput(const SessionContext& model, const std::string& owner, const HoldBytes& hold, TurnSpec* spec) {
  if (spec->raw) RETURN_IF_ERROR(ReadPrompt(model, spec));
  RETURN_IF_ERROR(ReadImages(model, owner, hold, &spec->input));
  JoinParts(model, &spec->input);
  return Status::Ok();
}

/// A response that has not begun.
std::shared_ptr<Response> MakeResponse(const Caller& caller, const TurnSpec& spec, const std::string& request_key) {
  auto response = std::make_shared<Response>();
  response->item_id = MakeId("msg_");
  response->previous_id = spec.previous_response_id;
  response->request_key = request_key;
  if (spec.echo) response->echo = spec.echo({*spec.format, *spec.tool_choice});
  response->connection = spec.store ? 0 : caller.connection;
  response->stored = spec.store;
  response->compaction = spec.compaction;
  response->trace = caller.trace;
  response->warm_up = spec.warm_up;
  response->logprobs = spec.sampling.logprobs >= 0;
  response->token_ids = spec.token_ids;
  return response;
}

}  // namespace

// Deterministic, so that a retry after a restart finds the chain that it had started.
std::shared_ptr<Session> SessionTable::State::NewChain(const Caller& caller, const WindowOverrides& window,
                                                       const std::string& request_key, Target* target) {
  const auto model = models.Known(window.model);
  if (target->in_memory) {
    return std::make_shared<Session>(model, MakeId(TieredStore::kMemoryOnly), caller.principal, Metadata{}, window);
  }
  std::string key = ReserveHistoryName(caller, target);
  if (key.empty()) {
    key = request_key.empty() ? MakeId("chain_") : HashedId("chain_", request_key);
    std::scoped_lock lock(mutex, reserved->mutex);
    // Its answer was dropped, or the name is taken.
    if (sessions.contains(key) || reserved->names.contains(key)) key = MakeId("chain_");
  }
  return std::make_shared<Session>(model, std::move(key), caller.principal, Metadata{}, window);
}

Result<SessionTable::State::Target> SessionTable::State::FindTarget(const Caller& caller, TurnSpec* asked,
                                                                    const std::string& request_key) {
  const TurnSpec& spec = *asked;
  Target target;
  if (spec.carries_history) return FindHistory(caller, asked, request_key);
  if (!spec.conversation.empty()) {
    ASSIGN_OR_RETURN(target.session, Find(caller, spec.conversation));
  } else if (!spec.previous_response_id.empty()) {
    const Result<Found> found = FindResponse(caller, spec.previous_response_id);
    if (found.status().code() == StatusCode::kNotFound) return NoPreviousResponse(spec.previous_response_id);
    if (!found.ok()) return found.status();
    target.parent = found->session;
    const bool running = found->session->Locked([&] {
      target.parent_items = spec.drops_history ? 0 : found->response->items_end;
      return found->response->running();
    });
    if (running) {
      return Status{StatusCode::kBusy, "The previous response is still running.", "previous_response_id",
                    "response_not_completed"};
    }
    // A turn that is not stored does not continue a durable session, and a session in memory only never becomes
    // durable.
    const bool in_memory = found->session->key().starts_with(TieredStore::kMemoryOnly);
    if (!spec.drops_history && !spec.may_branch && found->session->id().empty() &&
        (spec.store ? !in_memory : !found->session->durable())) {
      target.session = found->session;
      target.head = spec.previous_response_id;
    } else {
      RETURN_IF_ERROR(ForkTarget(caller, request_key, &target));
    }
  } else {
    RETURN_IF_ERROR(CheckWindow(models.Known(spec.window.model)->options, spec.window));
    target.session = NewChain(caller, spec.window, request_key, &target);
    target.fresh = true;
  }
  return target;
}

// Makes the target a new chain that starts with the parent's timeline up to the previous response.
Status SessionTable::State::ForkTarget(const Caller& caller, const std::string& request_key, Target* target) {
  ASSIGN_OR_RETURN(Timeline timeline, target->parent->CopyTimeline(static_cast<int64_t>(target->parent_items)));
  Fork(caller, std::move(timeline), request_key, target);
  return Status::Ok();
}

void SessionTable::State::Fork(const Caller& caller, Timeline timeline, const std::string& request_key,
                               Target* target) {
  target->session = NewChain(caller, target->parent->window(), request_key, target);
  target->fresh = true;
  target->head.clear();
  target->fork_from = target->parent->engine_timeline();
  target->fork_to = NextEngineId();
  target->session->Adopt(std::move(timeline), target->fork_to, target->parent->cache_window());
}

Result<TurnTicket> SessionTable::State::Reattach(const Caller& caller, const std::string& id,
                                                 const std::shared_ptr<EventSink>& sink) {
  ASSIGN_OR_RETURN(const Found found, FindResponse(caller, id));
  if (sink != nullptr) found.session->Replay(found.response, 0, sink);
  return TurnTicket{id, true};
}

Result<Session::Prepared> SessionTable::State::Begin(const Caller& caller, const TurnSpec& spec,
                                                     const std::string& request_key, Target* target, TurnId turn,
                                                     const std::shared_ptr<Response>& response,
                                                     const std::shared_ptr<EventSink>& sink,
                                                     std::shared_ptr<void>* permit) {
  const auto begin = [&] {
    response->id = MakeResponseId(target->session->key());
    response->conversation_id = target->session->id();
    return target->session->Begin(spec, caller, response, turn, sink, target->head, permit);
  };
  Result<Session::Prepared> prepared = begin();
  if (!prepared.ok() && prepared.status().code() == StatusCode::kMismatch) {
    RETURN_IF_ERROR(ForkTarget(caller, request_key, target));
    prepared = begin();
  }
  return prepared;
}

Status SessionTable::State::Launch(const Target& target, Session::Prepared prepared, TurnId turn,
                                   const Response& response) {
  TurnRequest& request = prepared.request;
  if (target.fork_to != 0 && request.timeline == target.fork_to) {
    request.forked_from = target.fork_from;
    request.forked_owner = target.parent->cache_owner();
  }
  if (!request.tokens.empty()) RETURN_IF_ERROR(engine.CheckWait(request));
  RETURN_IF_ERROR(target.session->Record(turn));
  const auto turn_sink = std::make_shared<TurnSink>(
      target.session, turn, target.session->durable() ? journal : nullptr, context->options.durability,
      response.logprobs, context->shared->tokens_by_owner.Of(target.session->owner()), context->clock);
  if (request.tokens.empty()) {  // an empty warm-up
    target.session->WithTurns([&](TurnProgress& turns) { turns.Submitted(turn); });
    turn_sink->OnEnd(TurnEnd{});
    return Status::Ok();
  }
  request.sink = turn_sink;
  if (context->options.turn_timeout_s > 0) {
    std::lock_guard lock(mutex);
    started.push_back({turn, context->clock.MonotonicNs(), target.session});
  }
  RETURN_IF_ERROR(engine.Submit(std::move(request)));
  target.session->WithTurns([&](TurnProgress& turns) { turns.Submitted(turn); });
  return Status::Ok();
}

int64_t BytesOf(const SessionTableOptions& options, const TurnSpec& spec) {
  // Text and ids are kept by the session and by the engine.
  constexpr size_t kCopies = 4;
  size_t text = 0;
  for (const NewItem& item : spec.input) text += item.text.size();
  size_t files = 0;
  for (const NewItem& item : spec.input) {
    for (const NewImage& image : item.images) files += image.source.size();
  }
  size_t tokens_kept = 0;
  if (spec.raw) {
    text += spec.raw->text.size() + spec.raw->tokens.size() * sizeof(TokenId);
    if (spec.raw->scored) tokens_kept += std::max(spec.raw->text.size(), spec.raw->tokens.size());
  }
  // A longer text is refused before it is copied, with a more precise error than lack of memory.
  constexpr int64_t kMaxBytesOfToken = 16;
  if (const int64_t most = options.max_input_tokens; most > 0) {
    text = std::min(text, static_cast<size_t>(most * kMaxBytesOfToken));
  }
  size_t bytes = text * kCopies + files * 2;  // an image's text, and its file
  if (spec.sampling.logprobs < 0) return static_cast<int64_t>(bytes);
  const int64_t usual = options.usual_answer();
  tokens_kept += static_cast<size_t>(std::max<int64_t>(spec.max_output_tokens.value_or(usual), 0));
  const size_t each = sizeof(OutputToken) + static_cast<size_t>(spec.sampling.logprobs) * sizeof(TokenLogprob);
  return static_cast<int64_t>(bytes + tokens_kept * each);
}

Result<HeldBytes> SessionTable::Hold(const Caller& caller, int64_t bytes) {
  return state_->Hold(caller.principal, bytes);
}

Result<TurnTicket> SessionTable::StartTurn(const Caller& caller, TurnSpec spec,
                                           const std::shared_ptr<EventSink>& sink) {
  State& state = *state_;
  state.CloseRetired();
  ASSIGN_OR_RETURN(const auto model, state.ChooseModel(caller, &spec));
  RETURN_IF_ERROR(spec.sampling.Validate(model->codec.tokenizer.vocab_size()));
  const int64_t longest = options().max_output_tokens_limit;
  if (longest > 0 && spec.max_output_tokens.value_or(0) > longest) {
    return InvalidArgument(fmt::format("max_output_tokens may be at most {} (--max-output-tokens-limit).", longest),
                           "max_output_tokens", "invalid_value");
  }
  const std::string key = RequestKey(caller, spec);
  uint64_t asked = 0;
  if (!key.empty()) {
    {
      std::lock_guard lock(state.mutex);
      asked = state.request_keys.Asked(key, spec.sending, state.context->uptime_s());
    }
    ASSIGN_OR_RETURN(const std::string known, state.FindRequest(caller, spec, key));
    if (!known.empty()) return state.Reattach(caller, known, sink);
  }
  ASSIGN_OR_RETURN(std::shared_ptr<void> permit, state.TakePermit(caller.principal));
  ASSIGN_OR_RETURN(HeldBytes held, state.Hold(caller.principal, BytesOf(model->options, spec)));
  // Released together when the turn ends.
  permit = std::make_shared<std::pair<std::shared_ptr<void>, HeldBytes>>(std::move(permit), std::move(held));
  const HoldBytes hold = [&](int64_t bytes) { return state.Hold(caller.principal, bytes); };
  RETURN_IF_ERROR(ReadInput(*model, caller.principal, hold, &spec));
  ASSIGN_OR_RETURN(State::Target target, state.FindTarget(caller, &spec, key));
  RETURN_IF_ERROR(ChooseForm(*target.session, &spec));
  RETURN_IF_ERROR(ChooseTools(*target.session, model->codec.chat.tool_syntax(), &spec));
  ASSIGN_OR_RETURN(spec.grammar, model->grammars->Get(*spec.format, caller.principal, RequestWatch::ClientLeft));
  if (const auto& calls = spec.format->calls; calls != nullptr && calls->syntax == ToolSyntaxName::kHarmony) {
    const AnswerFormat recipients{.kind = AnswerFormat::Kind::kRegex, .text = RecipientPattern(*calls)};
    if (!recipients.text.empty()) {
      ASSIGN_OR_RETURN(spec.recipients, model->grammars->Get(recipients, caller.principal, RequestWatch::ClientLeft));
    }
  }

  const std::shared_ptr<Response> response = MakeResponse(caller, spec, key);
  const TurnId turn = NextEngineId();
  ASSIGN_OR_RETURN(Session::Prepared prepared, state.Begin(caller, spec, key, &target, turn, response, sink, &permit));
  state.Forget(prepared.forgotten);
  const Result<std::string> registered = state.Register(
      target.session, target.fresh, {target.session->key(), target.session, response, key, spec.sending, asked});
  if (!registered.ok()) {
    target.session->Abandon(turn);
    if (spec.carries_history) return Unavailable("The cached history was evicted while the request arrived; retry.");
    return spec.conversation.empty() ? NoPreviousResponse(spec.previous_response_id) : registered.status();
  }
  if (*registered != response->id) {  // the same request arrived twice at once
    target.session->Abandon(turn);
    return state.Reattach(caller, *registered, sink);
  }
  if (spec.carries_history) state.IndexHistory(target.session);
  Status refused = LoadPictures(*model, caller.principal, hold, prepared.images, &prepared.request);
  if (refused.ok()) refused = state.Launch(target, std::move(prepared), turn, *response);
  if (!refused.ok()) {
    target.session->Abandon(turn);
    state.Forget({response->id});
    if (spec.carries_history) state.IndexHistory(target.session);
    return refused;
  }
  if (target.fresh) state.TrimChains(caller.principal);
  return TurnTicket{response->id, false};
}

Result<SharedList<TokenId>> SessionTable::InputTokens(const Caller& caller, const TurnSpec& spec) {
  State& state = *state_;
  TurnSpec asked = spec;
  asked.carries_history = false;  // nothing starts, so nothing is reused
  ASSIGN_OR_RETURN(const auto model, state.ChooseModel(caller, &asked));
  const HoldBytes hold = [&](int64_t bytes) { return state.Hold(caller.principal, bytes); };
  RETURN_IF_ERROR(ReadImages(*model, caller.principal, hold, &asked.input));
  JoinParts(*model, &asked.input);
  ASSIGN_OR_RETURN(State::Target target, state.FindTarget(caller, &asked, ""));
  Result<SharedList<TokenId>> tokens = target.session->InputTokens(asked, target.head);
  if (tokens.ok() || tokens.status().code() != StatusCode::kMismatch) return tokens;
  RETURN_IF_ERROR(state.ForkTarget(caller, "", &target));
  return target.session->InputTokens(asked, "");
}

Result<int64_t> SessionTable::CountInput(const Caller& caller, const TurnSpec& spec) {
  ASSIGN_OR_RETURN(const SharedList<TokenId> tokens, InputTokens(caller, spec));
  return static_cast<int64_t>(tokens.size());
}

Result<std::vector<TokenId>> SessionTable::TokensAfterAnswer(const std::string& model,
                                                             const std::vector<NewItem>& messages, bool ended) const {
  const Codec& codec = state_->models.Known(model)->codec;
  if (codec.chat.renders_whole() || codec.encoder) {
    return InvalidArgument("The model's template renders the whole conversation with every turn.", "",
                           "unsupported_value");
  }
  std::vector<ChatMessage> said;
  for (const NewItem& item : messages) said.push_back({.role = item.role, .content = item.text});
  const TimelineEnd before = ended ? TimelineEnd::kAnswerEnded : TimelineEnd::kAnswerOpen;
  const Rendering rendering = codec.chat.Render(said, before, /*add_generation_prompt=*/true);
  return codec.tokenizer.EncodeAll(rendering.pieces);
}

Status SessionTable::Cancel(const Caller& caller, const std::string& response_id) {
  ASSIGN_OR_RETURN(const State::Found found, state_->shared.FindRunning(caller, response_id));
  if (const TurnId turn = found.session->Running(response_id); turn != 0) state_->engine.Cancel(turn);
  return Status::Ok();
}

void SessionTable::InterruptTurns() {
  std::vector<std::shared_ptr<Session>> loaded;
  {
    std::lock_guard lock(state_->mutex);
    for (const auto& [key, known] : state_->sessions) {
      if (known.session != nullptr) loaded.push_back(known.session);
    }
  }
  for (const auto& session : loaded) {
    const TurnId turn = session->Running("");
    session->WithTurns([&](TurnProgress& turns) { turns.EndEarly(turn, kInterrupted); });
  }
}

Result<std::shared_ptr<const Response>> SessionTable::GetResponse(const Caller& caller, const std::string& id) const {
  ASSIGN_OR_RETURN(const State::Found found, state_->FindResponse(caller, id, State::Use::kRead));
  return found.session->Snapshot(found.response);
}

Result<std::vector<std::shared_ptr<const Response>>> SessionTable::ListResponses(const Caller& caller,
                                                                                 const std::string& id,
                                                                                 size_t most) const {
  ASSIGN_OR_RETURN(const auto session, state_->Find(caller, id, State::Use::kRead));
  const std::vector<std::shared_ptr<Response>> all = session->Responses();
  std::vector<std::shared_ptr<const Response>> newest;
  for (auto at = all.rbegin(); at != all.rend() && newest.size() < most; ++at) {
    if ((*at)->stored) newest.push_back(session->Snapshot(*at));
  }
  std::reverse(newest.begin(), newest.end());
  return newest;
}

Status SessionTable::FindResponse(const Caller& caller, const std::string& id) const {
  return state_->FindResponse(caller, id, State::Use::kRead).status();
}

Result<SharedList<Item>> SessionTable::GetInputItems(const Caller& caller, const std::string& response_id) const {
  ASSIGN_OR_RETURN(const State::Found found, state_->FindResponse(caller, response_id, State::Use::kRead));
  return found.session->InputItems(*found.response);
}

Result<SharedList<Item>> SessionTable::GetItemsUpTo(const Caller& caller, const std::string& response_id) const {
  ASSIGN_OR_RETURN(const State::Found found, state_->FindResponse(caller, response_id, State::Use::kRead));
  const size_t end = found.session->Locked([&] { return found.response->items_end; });
  ASSIGN_OR_RETURN(const Timeline timeline, found.session->CopyTimeline(static_cast<int64_t>(end)));
  return timeline.items();
}

Status SessionTable::Replay(const Caller& caller, const std::string& response_id, uint64_t from,
                            const std::shared_ptr<EventSink>& sink) {
  ASSIGN_OR_RETURN(const State::Found found, state_->shared.FindRunning(caller, response_id));
  found.session->Replay(found.response, from, sink);
  return Status::Ok();
}

Status SessionTable::DeleteResponse(const Caller& caller, const std::string& id) {
  ASSIGN_OR_RETURN(const State::Found found, state_->FindResponse(caller, id));
  if (const TurnId turn = found.session->Running(id); turn != 0) state_->engine.Cancel(turn);
  RETURN_IF_ERROR(found.session->Forget(id, found.response->stored));
  for (const std::string& chain : state_->ForgetAll({id})) RETURN_IF_ERROR(state_->Delete(chain));
  return Status::Ok();
}

void SessionTable::DropConnection(uint64_t connection) {
  std::vector<std::string> local;
  std::vector<std::shared_ptr<Session>> owners;
  {
    std::lock_guard lock(state_->mutex);
    const auto at = state_->local_responses.find(connection);
    if (at == state_->local_responses.end()) return;
    local = std::move(at->second);
    state_->local_responses.erase(at);
    for (const std::string& id : local) {
      const auto response = state_->responses.find(id);
      owners.push_back(response == state_->responses.end() ? nullptr : response->second.session.lock());
    }
  }
  for (size_t i = 0; i < local.size(); ++i) {
    if (owners[i] == nullptr) continue;
    // A chain's turn ends when the chain is dropped, below.
    const TurnId turn = owners[i]->key().starts_with("chain_") ? 0 : owners[i]->Running(local[i]);
    if (turn != 0) state_->engine.Cancel(turn);
    (void)owners[i]->Forget(local[i], false);
  }
  state_->Forget(local);
}

Status SessionTable::Resume(const Caller& caller, const ResumeRequest& request,
                            const std::shared_ptr<EventSink>& sink) {
  Result<std::shared_ptr<Session>> found = state_->Find(caller, request.session);
  if (!found.ok() && found.status().code() == StatusCode::kNotFound) {
    const auto response = state_->FindResponse(caller, request.session);
    if (response.ok()) found = response->session;
  }
  if (found.status().code() == StatusCode::kNotFound) {
    ResumeReply reply;
    reply.session = request.session;
    sink->OnResumed(reply);
    return Status::Ok();
  }
  if (!found.ok()) return found.status();
  Session& session = **found;
  if (request.known && request.known->seq > 0 && session.durable()) {
    ASSIGN_OR_RETURN(const DiskWait wait, DiskWait::Begin());
    const auto chain = state_->journal->ChainAt(session.key(), request.known->seq);
    if (!chain.ok() && chain.status().code() != StatusCode::kNotFound) return chain.status();
    if (!chain.ok() || !(*chain == request.known->chain)) {
      return Status(StatusCode::kMismatch, "What this client was told is not part of the conversation's history.",
                    "known", "history_diverged");
    }
  }
  const std::string owner = session.cache_owner();
  const CacheSource cache = state_->engine.Where(owner).value_or(CacheSource::kNew);
  if (cache == CacheSource::kDisk) state_->engine.Prefetch(owner);
  session.Resume(request, cache, sink);
  return Status::Ok();
}

}  // namespace ringside
