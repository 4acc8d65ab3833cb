#include "session/session.h"

#include <algorithm>
#include <atomic>

#include "base/limits.h"
#include "session/ids.h"
#include "session/turn_sink.h"

namespace ringside {
namespace {

Status ConversationLocked() {
  return {StatusCode::kBusy, "A response is running on this conversation. Wait for it to end, or cancel it.",
          "conversation", "conversation_locked"};
}

}  // namespace

uint64_t NextEngineId() {
  static std::atomic<uint64_t> next{0};
  return ++next;
}

Session::Session(std::shared_ptr<const SessionContext> context, std::string id, std::string owner, Metadata metadata,
                 WindowOverrides window)
    : context_(std::move(context)),
      id_(std::move(id)),
      owner_(std::move(owner)),
      created_at_(context_->clock.WallSeconds()),
      metadata_(std::move(metadata)),
      window_(window) {
  CountBytes();
}

Session::~Session() {
  *context_->bytes -= bytes_;
  if (engine_timeline_ != 0) context_->retired->Add(engine_timeline_);
}

void Session::CountBytes() {
  int64_t bytes = static_cast<int64_t>(sizeof(Session)) + timeline_.bytes();
  for (const auto& response : responses_) bytes += response->bytes();
  *context_->bytes += bytes - bytes_;
  bytes_ = bytes;
}

int64_t Session::SessionLen() const { return window_.session_len.value_or(context_->options.session_len); }

RingWindow Session::Window(int64_t pinned) const {
  return {pinned, window_.memory_len.value_or(context_->options.memory_len),
          window_.eviction.value_or(context_->options.eviction)};
}

Item Session::MakeItem(NewItem item) const {
  Item made;
  made.id = MakeId("msg_");
  made.role = item.role;
  made.text = std::move(item.text);
  return made;
}

SessionInfo Session::Info() const {
  std::lock_guard lock(mutex_);
  SessionInfo info;
  info.id = id_;
  info.created_at = created_at_;
  info.metadata = metadata_;
  info.items = static_cast<int64_t>(timeline_.items().size());
  info.tokens = static_cast<int64_t>(timeline_.tokens().size());
  info.position = last_report_.position;
  info.pinned = timeline_.pinned();
  info.tokens_evicted = last_report_.tokens_evicted;
  const RingWindow window = Window(0);
  info.memory_len = window.memory_len;
  info.eviction = window.eviction;
  info.session_len = SessionLen();
  if (running_) info.active_response_id = running_->response->id;
  return info;
}

std::vector<Item> Session::Items() const {
  std::lock_guard lock(mutex_);
  return timeline_.items();
}

WindowOverrides Session::window() const {
  std::lock_guard lock(mutex_);
  return window_;
}

Metadata Session::metadata() const {
  std::lock_guard lock(mutex_);
  return metadata_;
}

TimelineId Session::engine_timeline() const {
  std::lock_guard lock(mutex_);
  return engine_timeline_;
}

void Session::SetMetadata(Metadata metadata) {
  std::lock_guard lock(mutex_);
  metadata_ = std::move(metadata);
}

void Session::Adopt(Timeline timeline, TimelineId engine_timeline) {
  std::lock_guard lock(mutex_);
  timeline_ = std::move(timeline);
  engine_timeline_ = engine_timeline;
  engine_window_ = Window(timeline_.pinned());
  CountBytes();
}

Result<std::vector<Item>> Session::AddItems(std::vector<NewItem> items) {
  std::lock_guard lock(mutex_);
  if (running_) return ConversationLocked();
  std::vector<Item> added;
  for (NewItem& item : items) {
    added.push_back(MakeItem(std::move(item)));
    timeline_.AddItem(added.back());
  }
  head_.clear();
  CountBytes();
  return added;
}

std::vector<std::string> Session::Truncate(size_t items) {
  timeline_.KeepItems(items);
  head_.clear();
  std::vector<std::string> undone;
  std::erase_if(responses_, [&](const std::shared_ptr<Response>& response) {
    if (response->items_end <= items) return false;
    undone.push_back(response->id);
    return true;
  });
  CountBytes();
  return undone;
}

Result<std::vector<std::string>> Session::Rewind(int64_t items) {
  std::lock_guard lock(mutex_);
  if (running_) return ConversationLocked();
  const auto have = static_cast<int64_t>(timeline_.items().size());
  if (items < 0 || items > have) {
    return InvalidArgument("The conversation has " + std::to_string(have) + " items.", "to", "invalid_value");
  }
  return Truncate(static_cast<size_t>(items));
}

Result<std::vector<std::string>> Session::DropLastItem(const std::string& item) {
  std::lock_guard lock(mutex_);
  if (running_) return ConversationLocked();
  const std::vector<Item>& items = timeline_.items();
  const auto at = std::find_if(items.begin(), items.end(), [&](const Item& have) { return have.id == item; });
  if (at == items.end()) return NotFound("No item '" + item + "' in this conversation.", "item_id", "item_not_found");
  if (at + 1 != items.end()) {
    return InvalidArgument("Only the last item of a conversation can be deleted: what follows was made from it.",
                           "item_id", "item_not_last");
  }
  return Truncate(items.size() - 1);
}

Result<Timeline> Session::CopyTimeline(std::optional<int64_t> items) const {
  std::lock_guard lock(mutex_);
  const auto have = static_cast<int64_t>(timeline_.items().size());
  if (items && (*items < 0 || *items > have)) {
    return InvalidArgument("The conversation has " + std::to_string(have) + " items.", "at", "invalid_value");
  }
  Timeline copy = timeline_;
  if (items && *items < have) copy.KeepItems(static_cast<size_t>(*items));
  return copy;
}

SamplingParams Session::Sampling(const TurnSpec& spec) const {
  SamplingParams sampling = spec.sampling;
  for (const std::string& word : spec.bad_words) {
    // A word is another token behind a space.
    for (const std::string& text : {word, " " + word}) {
      const TextPiece piece{text, false};
      std::vector<TokenId> ids = context_->codec.tokenizer.Encode({&piece, 1});
      if (!ids.empty()) sampling.bad_words.push_back(std::move(ids));
    }
  }
  return sampling;
}

Status Session::Check(const TurnSpec& spec, const Timeline& next) const {
  if (!spec.warm_up && spec.input.empty()) {
    if (next.items().empty())
      return InvalidArgument("There is nothing to answer.", "input", "missing_required_parameter");
    if (next.items().back().role == ChatRole::kAssistant) {
      return InvalidArgument("An empty input answers the conversation's last message, but that is an answer already.",
                             "input", "invalid_value");
    }
  }
  return Status::Ok();
}

Result<Session::Prepared> Session::Begin(const TurnSpec& spec, std::shared_ptr<Response> response, TurnId turn,
                                         const std::shared_ptr<EventSink>& sink, const std::string& head) {
  const SessionTableOptions& options = context_->options;
  std::lock_guard lock(mutex_);
  if (!head.empty() && (running_ || head_ != head)) return Mismatch("The timeline went on.");
  if (running_) return ConversationLocked();
  ActiveTurn running;
  running.next = timeline_;
  if (spec.instructions) running.recomputed = running.next.SetInstructions(spec.instructions, context_->codec);
  response->items_before = timeline_.items().size();
  for (const NewItem& item : spec.input) running.next.AddItem(MakeItem(item));
  RETURN_IF_ERROR(Check(spec, running.next));
  running.next.Render(context_->codec, !spec.warm_up);
  const auto tokens = static_cast<int64_t>(running.next.tokens().size());
  if (tokens > SessionLen()) {
    return InvalidArgument("The conversation would have " + std::to_string(tokens) + " tokens; its limit is " +
                               std::to_string(SessionLen()) + ".",
                           "input", "context_length_exceeded");
  }

  Prepared prepared;
  const RingWindow window = Window(running.next.pinned());
  if (engine_timeline_ == 0 || !(window == engine_window_)) {
    if (engine_timeline_ != 0) context_->retired->Add(engine_timeline_);
    engine_timeline_ = NextEngineId();
    engine_window_ = window;
  }
  TurnRequest& request = prepared.request;
  request.turn = turn;
  request.timeline = engine_timeline_;
  request.tokens = running.next.tokens();
  request.message_starts = running.next.message_starts();
  request.window = window;
  request.session_len = SessionLen();
  request.sampling = Sampling(spec);
  request.stop_strings = spec.stop_strings;
  const std::vector<std::string>& own_stops = context_->codec.chat.stop_strings();
  request.stop_strings.insert(request.stop_strings.end(), own_stops.begin(), own_stops.end());
  request.stop_ids = spec.stop_ids;
  if (!spec.ignore_end_of_turn) {
    request.stop_ids.insert(request.stop_ids.end(), options.end_of_turn.begin(), options.end_of_turn.end());
  }
  request.max_tokens = spec.warm_up ? 0 : spec.max_output_tokens.value_or(options.max_output_tokens);

  response->created_at = context_->clock.WallSeconds();
  response->tokens_evicted_before = last_report_.tokens_evicted;
  response->messages_evicted_before = last_report_.messages_evicted;
  response->input_tokens = tokens;
  response->input_items_end = running.next.items().size();
  running.id = turn;
  running.response = std::move(response);
  running.sinks.push_back(sink);
  running_ = std::move(running);
  while (responses_.size() >= static_cast<size_t>(limits::kMaxResponsesPerSession)) {
    prepared.forgotten.push_back(responses_.front()->id);
    responses_.pop_front();
  }
  return prepared;
}

void Session::Abandon(TurnId turn) {
  std::lock_guard lock(mutex_);
  if (running_ && running_->id == turn) running_.reset();
}

TurnId Session::Running(const std::string& response) const {
  std::lock_guard lock(mutex_);
  return running_ && (response.empty() || running_->response->id == response) ? running_->id : 0;
}

void Session::FinishEmpty(TurnId turn) {
  std::lock_guard lock(mutex_);
  if (!running_ || running_->id != turn) return;
  AnnounceLocked();
  Finish(TurnEnd{});
}

void Session::OnEnd(TurnId turn, const TurnEnd& end) {
  std::lock_guard lock(mutex_);
  if (!running_ || running_->id != turn) return;
  AnnounceLocked();
  Finish(end);
}

void Session::Finish(const TurnEnd& end) {
  Response& response = *running_->response;
  response.reason = end.reason;
  response.error = end.error;
  response.output_tokens = static_cast<int64_t>(end.output.size());
  response.report = end.report;
  response.times = end.times;
  if (running_->recomputed) response.report.source = CacheSource::kRecomputed;
  response.completed_at = context_->clock.WallSeconds();
  if (end.reason == FinishReason::kError) {
    // As if the turn had never been: it can be asked for again.
    response.status = ResponseStatus::kFailed;
    response.items_end = response.input_items_end = response.items_before;
  } else {
    Timeline& next = running_->next;
    const bool cut = end.reason != FinishReason::kStop;
    if (response.warm_up) {
      response.status =
          end.reason == FinishReason::kCancelled ? ResponseStatus::kCancelled : ResponseStatus::kCompleted;
    } else {
      response.status = !cut                                     ? ResponseStatus::kCompleted
                        : end.reason == FinishReason::kCancelled ? ResponseStatus::kCancelled
                                                                 : ResponseStatus::kIncomplete;
      Item answer;
      answer.id = response.item_id;
      answer.text = response.text;
      answer.complete = !cut;
      next.CloseAnswer(std::move(answer), end.output, context_->codec);
    }
    timeline_ = std::move(next);
    response.items_end = timeline_.items().size();
    head_ = response.id;
    last_report_ = response.report;
  }
  Emit(TurnEvent::Kind::kEnd);
  // Logprobs are large: only the newest answer keeps them.
  for (auto it = responses_.rbegin(); it != responses_.rend(); ++it) {
    if (it->get() == &response) continue;
    if ((*it)->tokens.empty()) break;
    (*it)->tokens.clear();
    (*it)->tokens.shrink_to_fit();
    (*it)->delta_token_ends.clear();
  }
  running_.reset();
  CountBytes();
}

std::vector<Item> Session::InputItems(const Response& response) const {
  std::lock_guard lock(mutex_);
  const bool active = running_ && running_->response.get() == &response;
  const std::vector<Item>& items = active ? running_->next.items() : timeline_.items();
  const size_t count = std::min(response.input_items_end, items.size());
  return {items.begin(), items.begin() + static_cast<ptrdiff_t>(count)};
}

void Session::Forget(const std::string& response) {
  std::lock_guard lock(mutex_);
  std::erase_if(responses_, [&](const std::shared_ptr<Response>& have) { return have->id == response; });
  CountBytes();
}

std::vector<std::string> Session::ResponseIds() const {
  std::lock_guard lock(mutex_);
  std::vector<std::string> ids;
  for (const auto& response : responses_) ids.push_back(response->id);
  if (running_ && !running_->announced) ids.push_back(running_->response->id);
  return ids;
}

}  // namespace ringside
