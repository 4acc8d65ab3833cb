// Side turns that summarize a history.
#include <algorithm>
#include <chrono>
#include <condition_variable>

#include "base/limits.h"
#include "base/request_watch.h"
#include "base/worker_pool.h"
#include "session/ids.h"
#include "session/table/table_state.h"
#include "session/turn/compaction.h"

namespace ringside {
namespace {

constexpr std::chrono::milliseconds kLookForClient{200};

/// Waits for the end of one turn.
class EndOfTurn final : public EventSink {
 public:
  explicit EndOfTurn(uint64_t connection) : connection_(connection) {}
  const EventNumbers& numbers() const override {
    static constexpr EventNumbers kNumbers;
    return kNumbers;
  }
  void OnEvent(const TurnEvent& event) override {
    if (event.kind != TurnEvent::Kind::kEnded) return;
    {
      std::lock_guard lock(mutex_);
      response_ = event.response;
    }
    ended_.notify_all();
  }
  void OnReplay(const ResponseCopies&, uint64_t) override {}
  uint64_t connection() const override { return connection_; }

  /// Null once the client of the calling worker's request has left.
  std::shared_ptr<const Response> Wait() {
    std::unique_lock lock(mutex_);
    while (!ended_.wait_for(lock, kLookForClient, [&] { return response_ != nullptr; })) {
      if (RequestWatch::ClientLeft()) return nullptr;
    }
    return response_;
  }

 private:
  const uint64_t connection_;
  std::mutex mutex_;
  std::condition_variable ended_;
  std::shared_ptr<const Response> response_;
};

/// The history and its settings, and nothing else that the request asked for.
TurnSpec SideTurn(const TurnSpec& history, const std::string& instructions) {
  TurnSpec side;
  side.previous_response_id = history.previous_response_id;
  side.carries_history = history.carries_history;
  side.input = history.input;
  side.input.push_back(AskForSummary(instructions));
  side.instructions = history.instructions;
  side.tools = history.tools;
  side.choice().mode = ToolChoice::Mode::kNone;
  side.window = history.window;
  side.adapter = history.adapter;
  side.model = history.model;
  side.reasoning = history.reasoning;
  side.reasoning.budget_tokens = kMaxSummaryReasoning;
  side.timeline_key = history.timeline_key;
  side.sampling.temperature = 0;
  side.max_output_tokens = kMaxSummaryTokens;
  side.truncates = true;
  side.store = false;
  side.may_branch = true;  // it needs no copy of the conversation's cache, and its own cache ends with it
  return side;
}

}  // namespace

Result<std::shared_ptr<void>> SessionTable::State::TakeSummaryPlace(const std::string& owner) {
  std::lock_guard lock(turns->mutex);
  int64_t all = 0;
  for (const auto& [other, count] : turns->summaries_by_owner) all += count;
  int64_t& count = turns->summaries_by_owner[owner];
  if (count >= limits::kMaxSummariesPerOwner || all >= limits::kMaxSummaries) {
    if (count == 0) turns->summaries_by_owner.erase(owner);
    return Status(StatusCode::kOverloaded, "Too many conversations are being compacted.", "", "rate_limit_exceeded");
  }
  ++count;
  return std::shared_ptr<void>(nullptr, [turns = turns, owner](void*) {
    std::lock_guard lock(turns->mutex);
    const auto at = turns->summaries_by_owner.find(owner);
    if (--at->second == 0) turns->summaries_by_owner.erase(at);
  });
}

Result<Summary> SessionTable::Summarize(const Caller& caller, const TurnSpec& history,
                                        const std::vector<NewItem>& items, const std::string& instructions) {
  State& state = *state_;
  TurnSpec side = SideTurn(history, instructions);
  ASSIGN_OR_RETURN(const auto model, state.ChooseModel(caller, &side));
  if (model->codec.encoder) return Summary{.text = OutlineOf(items)};
  ASSIGN_OR_RETURN(const std::shared_ptr<void> place, state.TakeSummaryPlace(caller.principal));
  Caller own = caller;
  own.connection = NextConnection();
  const int64_t longest = options().max_output_tokens_limit;
  if (longest > 0) side.max_output_tokens = std::min(kMaxSummaryTokens, longest);
  const auto end = std::make_shared<EndOfTurn>(own.connection);
  std::shared_ptr<const Response> response;
  {
    ASSIGN_OR_RETURN(const TurnTicket ticket, StartTurn(own, std::move(side), end));
    const std::shared_ptr<void> gone(nullptr, [&](void*) {
      (void)Cancel(own, ticket.response_id);
      DropConnection(own.connection);
    });
    ASSIGN_OR_RETURN(const DiskWait wait, DiskWait::Begin());
    response = end->Wait();
  }
  if (response == nullptr) return Status(StatusCode::kCancelled, "The client left.");
  if (!response->error.ok()) return response->error;
  Summary summary{.text = std::string(response->message()),
                  .by_model = true,
                  .input_tokens = response->input_tokens,
                  .cached_tokens = response->report.tokens_reused,
                  .output_tokens = response->output_tokens};
  if (summary.text.empty()) {
    summary.text = OutlineOf(items);
    summary.by_model = false;
  }
  return summary;
}

Status SessionTable::ReplaceItems(const Caller& caller, const std::string& id, size_t begin, size_t end, NewItem item) {
  ASSIGN_OR_RETURN(const auto session, state_->Find(caller, id));
  ASSIGN_OR_RETURN(const std::vector<std::string> undone,
                   session->ReplaceItems(caller.connection, begin, end, std::move(item)));
  state_->Forget(undone);
  return Status::Ok();
}

}  // namespace ringside
