#include "tools/sim/simulation.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <queue>
#include <utility>

#include "base/check.h"
#include "base/limits.h"
#include "cache/store/ram_store.h"
#include "engine/loop/engine_loop.h"
#include "tests/engine/letter_tokenizer.h"

namespace ringside {
namespace {

/// The clients: submits turns to the engine at their times, receives the results and plans the next turns.
class Clients {
 public:
  Clients(const ClientCosts& costs, const std::vector<PlannedConversation>& load, RingWindow window, ManualClock& clock)
      : costs_(costs), window_(window), clock_(clock) {
    for (const PlannedConversation& plan : load) {
      conversations_.push_back({&plan, {}, {}, 0});
      conversations_.back().timeline = ++timelines_;
      Plan(Event::kWrites, plan.begin_ms, conversations_.size() - 1);
    }
  }

  /// Submits the turns that have reached the engine by now.
  Status Submit(EngineLoop& loop) {
    while (!events_.empty() && events_.top().at_ns <= clock_.MonotonicNs()) {
      const Event event = events_.top();
      events_.pop();
      if (event.kind == Event::kWrites) {
        Write(event.conversation);
      } else {
        RETURN_IF_ERROR(loop.Submit(Request(event.conversation)));
      }
    }
    return Status::Ok();
  }
  /// Time of the next event; nullopt = none is known.
  std::optional<int64_t> next_ns() const { return events_.empty() ? std::nullopt : std::optional(events_.top().at_ns); }
  /// Turns submitted to the engine that have not ended.
  int64_t answering() const { return answering_; }
  std::vector<SimTurn>& turns() { return turns_; }

 private:
  struct Conversation {
    const PlannedConversation* plan;
    std::vector<TokenId> tokens;
    std::vector<int64_t> starts;
    size_t next;         // index of its turn
    double sent_ms = 0;  // of that turn
    TimelineId timeline = 0;
  };
  struct Event {
    int64_t at_ns;
    uint64_t order;  // breaks ties: order of creation
    enum Kind { kWrites, kReaches } kind;
    size_t conversation;
    bool operator>(const Event& other) const { return std::pair(at_ns, order) > std::pair(other.at_ns, other.order); }
  };
  class Sink final : public TokenSink {
   public:
    Sink(Clients& clients, size_t turn) : clients_(clients), turn_(turn) {}
    void OnStart(const CacheReport&) override { clients_.turns_[turn_].begun_ms = clients_.now_ms(); }
    void OnTokens(const TokenDelta& delta) override { clients_.Heard(turn_, delta.tokens.size()); }
    void OnEnd(const TurnEnd& end) override { clients_.Ended(turn_, end); }

   private:
    Clients& clients_;
    const size_t turn_;
  };

  double now_ms() const { return static_cast<double>(clock_.MonotonicNs()) * 1e-6; }

  void Plan(Event::Kind kind, double at_ms, size_t conversation) {
    events_.push({static_cast<int64_t>(at_ms * 1e6), ++events_made_, kind, conversation});
  }

  /// Returns when the client's thread has finished a task of `ms` that it may start at `ready_ms`.
  double Work(double ready_ms, double ms) { return free_ms_ = std::max(ready_ms, free_ms_) + ms; }

  void Write(size_t conversation) {
    Conversation& c = conversations_[conversation];
    if (now_ms() > c.plan->until_ms) return;
    const auto tokens = static_cast<double>(c.plan->turns[c.next].input);
    c.sent_ms = Work(now_ms(), costs_.write + costs_.write_token * tokens);
    Plan(Event::kReaches, c.sent_ms + costs_.to_engine + costs_.to_engine_token * tokens, conversation);
  }

  TurnRequest Request(size_t conversation) {
    ++answering_;
    Conversation& c = conversations_[conversation];
    const PlannedTurn& planned = c.plan->turns[c.next];
    if (c.plan->is_stateless && c.next > 0) {
      c.tokens.clear(), c.starts.clear();
      c.timeline = ++timelines_;
    }
    c.starts.push_back(static_cast<int64_t>(c.tokens.size()));
    for (int64_t i = 0; i < planned.input; ++i) {
      const bool is_shared = std::ssize(c.tokens) < c.plan->shared;
      const auto number = (is_shared ? 1 : (c.timeline - 1) * 7919) + c.tokens.size() * 31;
      c.tokens.push_back(static_cast<TokenId>(number % FreeNetwork::kVocab));
    }
    turns_.push_back({.conversation = static_cast<int64_t>(conversation),
                      .user = c.plan->user,
                      .number = c.plan->is_stateless ? 0 : static_cast<int64_t>(c.next),
                      .role = c.plan->role,
                      .input = planned.input,
                      .sent_ms = c.sent_ms});
    TurnRequest request;
    request.turn = turns_.size();
    request.timeline = c.timeline;
    request.tenant = "user_" + std::to_string(c.plan->user);
    request.owner = "conversation_" + std::to_string(c.timeline);
    request.tokens = c.tokens;
    request.message_starts = c.starts;
    request.window = window_;
    request.sampling.temperature = 0;
    request.max_tokens = planned.output;
    request.sink = std::make_shared<Sink>(*this, turns_.size() - 1);
    return request;
  }

  void Heard(size_t index, size_t tokens) {
    SimTurn& turn = turns_[index];
    for (; tokens > 0; --tokens, ++turn.output) {
      const double now = Work(now_ms() + costs_.to_client, costs_.read);
      if (turn.output == 0) turn.first_ms = now;
      if (turn.output > 0) turn.gaps_ms.push_back(now - turn.end_ms);
      turn.end_ms = now;
    }
  }

  void Ended(size_t index, const TurnEnd& end) {
    SimTurn& turn = turns_[index];
    turn.end_ms = Work(now_ms() + costs_.to_client, costs_.read);
    ++turn.ends;
    --answering_;
    turn.reason = end.reason;
    turn.report = end.report;
    Conversation& c = conversations_[static_cast<size_t>(turn.conversation)];
    c.tokens.insert(c.tokens.end(), end.output.begin(), end.output.end());
    if (++c.next == c.plan->turns.size()) return;
    Plan(Event::kWrites, turn.end_ms + c.plan->turns[c.next].pause_ms, static_cast<size_t>(turn.conversation));
  }

  const ClientCosts costs_;
  const RingWindow window_;
  ManualClock& clock_;
  std::vector<Conversation> conversations_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  uint64_t events_made_ = 0;
  TimelineId timelines_ = 0;
  double free_ms_ = 0;  // of the client's thread
  int64_t answering_ = 0;
  std::vector<SimTurn> turns_;
};

/// Tiers whose thread takes time: requests wait while it hashes.
class Tiers {
 public:
  Tiers(int64_t host_bytes, double seal_bytes_per_ms, ManualClock& clock)
      : seal_bytes_per_ms_(seal_bytes_per_ms),
        clock_(clock),
        store_(std::make_unique<RamStore>(host_bytes, clock), nullptr, {.sweep_ms = 0, .own_threads = false}, clock) {}

  TieredStore& store() { return store_; }
  void Work() {
    if (clock_.MonotonicNs() < free_ns_) return;
    const uint64_t before = store_.stats().stored_bytes;
    store_.RunQueued();
    const auto sealed = static_cast<double>(store_.stats().stored_bytes - before);
    free_ns_ = clock_.MonotonicNs() + static_cast<int64_t>(1e6 * sealed / seal_bytes_per_ms_);
  }
  /// When its thread becomes free; nullopt = it is free now.
  std::optional<int64_t> free_ns() const {
    return free_ns_ > clock_.MonotonicNs() ? std::optional(free_ns_) : std::nullopt;
  }

 private:
  const double seal_bytes_per_ms_;
  ManualClock& clock_;
  TieredStore store_;
  int64_t free_ns_ = 0;
};

/// Runs rounds until no work is left, advancing the clock from event to event.
Status RunAll(Clients& clients, EngineLoop& loop, Tiers& tiers, const SimCopies& copies, ManualClock& clock,
              int64_t* longest_pause_ns) {
  constexpr int64_t kMostRoundsAtOnce = 1000;  // without a change of time
  int64_t at_once = 0, last_ns = 0;
  for (;;) {
    RETURN_IF_ERROR(clients.Submit(loop));
    const int64_t blocked_ns = copies.blocked_ns;
    loop.RunRound();
    *longest_pause_ns = std::max(*longest_pause_ns, copies.blocked_ns - blocked_ns);
    tiers.Work();
    const std::optional<int64_t> asks = clients.next_ns();
    if (!asks && clients.answering() == 0) return Status::Ok();
    std::optional<int64_t> due;
    for (const std::optional<int64_t> next : {asks, loop.NextDueNs(), tiers.free_ns()}) {
      if (next) due = std::min(due.value_or(*next), *next);
    }
    if (!due) return Unavailable("the engine has nothing to do, and turns that it has not ended");
    AdvanceTo(clock, *due);
    at_once = clock.MonotonicNs() == last_ns ? at_once + 1 : 0;
    last_ns = clock.MonotonicNs();
    if (at_once > kMostRoundsAtOnce) return Unavailable("the engine is about to do something, and never does");
  }
}

}  // namespace

Result<ServerConfig> SimulatedServer(const std::vector<std::string>& settings) {
  std::vector<std::string> args{"--model", "simulated.gguf", "--device", "cuda"};
  args.insert(args.end(), settings.begin(), settings.end());
  ASSIGN_OR_RETURN(const ParsedConfig parsed, ParseConfig(args, {}));
  return parsed.config;
}

Result<SimResult> Simulate(const CostModel& cost, const ServerConfig& config, const ClientCosts& client,
                           const std::vector<PlannedConversation>& load) {
  ASSIGN_OR_RETURN(EngineOptions options, ResolveEngineOptions(config, cost.spec));
  if (options.slots == 0) return InvalidArgument("--slots: the simulated device does not know its memory");
  ManualClock clock;
  const NetworkShape shape = FreeNetwork::kShape;
  const double scale = static_cast<double>(cost.spec.layers * cost.spec.kv_heads * cost.spec.head_dim) /
                       static_cast<double>(shape.layers * shape.kv_heads * shape.head_dim);
  SimBackend backend(cost, scale, clock);
  FreeNetwork network(backend);
  SimNetwork timed(cost, backend, network, clock);
  const LetterTokenizer tokenizer(FreeNetwork::kVocab);
  const auto scaled = [&](int64_t bytes) { return static_cast<int64_t>(static_cast<double>(bytes) / scale); };
  Tiers tiers(scaled(config.host_cache_mb << 20), cost.seal_bytes_per_ms / scale, clock);
  ASSIGN_OR_RETURN(
      KvPool pool,
      KvPool::Make(backend,
                   MakeKvShape(shape.layers, shape.kv_heads, shape.head_dim, options.kv_dtype, options.pinned_max,
                               options.memory_len, std::min(options.prefill_chunk, limits::kMaxFullRingChunkTokens)),
                   options.slots, scaled(options.kv_bytes)));
  Clients clients(client, load, {.pinned = 4, .memory_len = options.memory_len}, clock);
  EngineLoop loop(timed, tokenizer, options, std::move(pool),
                  {.tiers = &tiers.store(),
                   .idle_ms = config.session_idle_host_ms,
                   .pinned_bytes = scaled(config.host_cache_mb << 20)},
                  clock, EngineLoop::Driver::kCaller);
  int64_t longest_pause_ns = 0;
  RETURN_IF_ERROR(RunAll(clients, loop, tiers, backend.counts(), clock, &longest_pause_ns));
  SimResult result{std::move(clients.turns()),
                   0,
                   timed.device_busy_ms(),
                   backend.counts(),
                   static_cast<double>(longest_pause_ns) * 1e-6,
                   loop.stats()};
  for (const SimTurn& turn : result.turns) result.ms = std::max(result.ms, turn.end_ms - result.turns[0].sent_ms);
  return result;
}

}  // namespace ringside
