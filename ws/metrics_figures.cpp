#include "ws/metrics_figures.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ringside {
namespace {

struct Row {
  const char* name;  // rows of one metric are adjacent
  const char* help;
  const char* label = "";  // "" = none
  const char* value = "";
  double (*read)(const MetricsSnapshot&) = nullptr;
  double (*of_engine)(const FleetEngine&) = nullptr;  // per-engine value, in place of `read`
};

template <class Number>
double Plain(Number value) {
  return static_cast<double>(value);
}
using Now = const MetricsSnapshot&;

template <EngineState state>
double EnginesIn(Now now) {
  return Plain(std::ranges::count(now.engines, state, &FleetEngine::state));
}

constexpr char kEnginesHelp[] = "Engines, by whether they get conversations";

constexpr Row kGauges[] = {
    {.name = "ringside_ready",
     .help = "1 while turns are answered: what /readyz tells",
     .read = [](Now now) { return now.ready ? 1.0 : 0.0; }},
    {.name = "ringside_num_requests_running",
     .help = "Turns in the batch",
     .of_engine = [](const FleetEngine& now) { return Plain(now.stats.turns_running); }},
    {.name = "ringside_num_requests_waiting",
     .help = "Turns waiting for a slot",
     .of_engine = [](const FleetEngine& now) { return Plain(now.stats.turns_waiting); }},
    {.name = "ringside_engine_drains",
     .help = "1 from the moment when an engine is drained until it is resumed",
     .of_engine =
         [](const FleetEngine& now) {
           return now.state == EngineState::kDraining || now.state == EngineState::kDrained ? 1.0 : 0.0;
         }},
    {.name = "ringside_engines",
     .help = kEnginesHelp,
     .label = "state",
     .value = "serving",
     .read = EnginesIn<EngineState::kServing>},
    {.name = "ringside_engines",
     .help = kEnginesHelp,
     .label = "state",
     .value = "draining",
     .read = EnginesIn<EngineState::kDraining>},
    {.name = "ringside_engines",
     .help = kEnginesHelp,
     .label = "state",
     .value = "drained",
     .read = EnginesIn<EngineState::kDrained>},
    {.name = "ringside_engines",
     .help = kEnginesHelp,
     .label = "state",
     .value = "failed",
     .read = EnginesIn<EngineState::kFailed>},
    {.name = "ringside_slots",
     .help = "Slots",
     .of_engine = [](const FleetEngine& now) { return Plain(now.stats.slots); }},
    {.name = "ringside_slots_used",
     .help = "Slots that hold a conversation",
     .of_engine = [](const FleetEngine& now) { return Plain(now.stats.slots_used); }},
    {.name = "ringside_kv_bytes",
     .help = "Memory for the caches in slots",
     .of_engine = [](const FleetEngine& now) { return Plain(now.stats.kv_bytes); }},
    {.name = "ringside_kv_used_bytes",
     .help = "What of it those that are there take",
     .of_engine = [](const FleetEngine& now) { return Plain(now.stats.kv_bytes_used); }},
    {.name = "ringside_kv_shared_bytes",
     .help = "More that they would take without shared pages",
     .of_engine = [](const FleetEngine& now) { return Plain(now.stats.kv_bytes_shared); }},
    {.name = "ringside_sessions",
     .help = "Conversations kept",
     .read = [](Now now) { return Plain(now.sessions.conversations); }},
    {.name = "ringside_worker_queue_calls",
     .help = "Requests and messages that wait for a worker",
     .read = [](Now now) { return Plain(now.workers.calls); }},
    {.name = "ringside_worker_queue_bytes",
     .help = "Bytes of these",
     .read = [](Now now) { return Plain(now.workers.bytes); }},
    {.name = "ringside_worker_disk_waits",
     .help = "Requests and messages that wait for the disk",
     .read = [](Now now) { return Plain(now.workers.disk_waits); }},
    {.name = "ringside_worker_long_calls",
     .help = "Requests and messages with long work, such as compiling a grammar, that runs or waits",
     .read = [](Now now) { return Plain(now.workers.long_calls); }},
    {.name = "ringside_worker_stalled_seconds",
     .help = "Time since a worker was last free; 0 = one is free",
     .read = [](Now now) { return Plain(now.workers.stalled_ms) * 1e-3; }},
    {.name = "ringside_worker_longest_call_seconds",
     .help = "Age of the oldest call that runs on a worker, waits for the disk not counted",
     .read = [](Now now) { return Plain(now.workers.longest_call_ms) * 1e-3; }},
    {.name = "process_resident_memory_bytes",
     .help = "Memory of this process that is not swapped out",
     .read = [](Now now) { return Plain(now.process.resident_bytes); }},
    {.name = "process_open_fds",
     .help = "Open file descriptors",
     .read = [](Now now) { return Plain(now.process.open_files); }},
    {.name = "process_max_fds",
     .help = "Most file descriptors that may be open",
     .read = [](Now now) { return Plain(now.process.max_files); }},
    {.name = "process_start_time_seconds",
     .help = "Start of this process, in seconds since 1970",
     .read = [](Now now) { return now.process.started_at; }},
    {.name = "ringside_cache_bytes",
     .help = "Stored caches",
     .label = "tier",
     .value = "host",
     .read = [](Now now) { return Plain(now.tiers.host_bytes); }},
    {.name = "ringside_cache_bytes",
     .help = "Stored caches",
     .label = "tier",
     .value = "disk",
     .read = [](Now now) { return Plain(now.tiers.disk_bytes); }},
    {.name = "ringside_cache_objects",
     .help = "Conversations with a stored cache",
     .label = "tier",
     .value = "host",
     .read = [](Now now) { return Plain(now.tiers.host_objects); }},
    {.name = "ringside_cache_objects",
     .help = "Conversations with a stored cache",
     .label = "tier",
     .value = "disk",
     .read = [](Now now) { return Plain(now.tiers.disk_objects); }},
    {.name = "ringside_cache_waiting_bytes",
     .help = "Caches that left their slots and are in no tier yet",
     .read = [](Now now) { return Plain(now.tiers.waiting_bytes); }},
    {.name = "ringside_cache_memory_bytes",
     .help = "Host memory of caches: stored, waiting, on their way to or from a slot",
     .read = [](Now now) { return Plain(now.tiers.memory_bytes); }},
    {.name = "ringside_cache_disk_read_bytes_per_second",
     .help = "Rate of recent reads of stored caches",
     .read = [](Now now) { return now.tiers.disk_read_bytes_per_second; }},
    {.name = "ringside_cache_disk_write_bytes_per_second",
     .help = "Rate of recent writes of stored caches",
     .read = [](Now now) { return now.tiers.disk_write_bytes_per_second; }},
    {.name = "ringside_prefill_tokens_per_second",
     .help = "Rate of recent prefills, by which recomputing is estimated",
     .of_engine = [](const FleetEngine& now) { return now.stats.prefill_tokens_per_second; }},
    {.name = "ringside_prompt_wait_seconds",
     .help = "Predicted wait of a turn that is served after all queued ones, by which --max-wait-s refuses turns",
     .of_engine = [](const FleetEngine& now) { return now.stats.prompt_wait_s; }},
    {.name = "ringside_chains",
     .help = "Chains of responses kept without a conversation",
     .read = [](Now now) { return Plain(now.sessions.chains); }},
    {.name = "ringside_sessions_loaded",
     .help = "Conversations and chains in memory",
     .read = [](Now now) { return Plain(now.sessions.loaded); }},
    {.name = "ringside_journal_sessions",
     .help = "Conversations and chains on disk",
     .read = [](Now now) { return Plain(now.journal.sessions); }},
    {.name = "ringside_journal_damaged_sessions",
     .help = "Of these, found to be damaged",
     .read = [](Now now) { return Plain(now.journal.damaged_sessions); }},
    {.name = "ringside_journal_unpurged_sessions",
     .help = "Deleted ones whose bytes are still on the disk",
     .read = [](Now now) { return Plain(now.journal.erased_unpurged); }},
    {.name = "ringside_journal_queue_entries",
     .help = "Changes that wait for the next commit",
     .read = [](Now now) { return Plain(now.journal.queued); }},
    {.name = "ringside_journal_free_bytes",
     .help = "Free space of the disk that is written to, as of the last look",
     .read = [](Now now) { return Plain(now.journal.free_bytes); }},
    {.name = "ringside_backup_last_success_timestamp_seconds",
     .help = "When the newest backup was made, in seconds since 1970; 0 = there is none",
     .read = [](Now now) { return now.last_backup_at; }},
    {.name = "ringside_journal_sync_seconds_max",
     .help = "Longest sync so far",
     .read = [](Now now) { return now.journal.sync_ms_max * 1e-3; }},
    {.name = "ringside_journal_write_seconds",
     .help = "Age of the journal's write that runs now; 0 = none runs",
     .read = [](Now now) { return Plain(now.journal.writing_ms) * 1e-3; }},
};

constexpr char kSpillsHelp[] = "Caches moved down from a slot or from memory";
constexpr char kSpillBytesHelp[] = "Bytes moved down; what was there already is not moved again";
constexpr char kRestoresHelp[] = "Stored caches copied back into a slot";
constexpr char kInsteadHelp[] = "Stored caches that were not used and computed anew instead, by reason";
constexpr char kGoneHelp[] = "Stored caches given up, by reason";

constexpr Row kCounters[] = {
    {.name = "ringside_worker_refused_total",
     .help = "Requests and messages refused because too many waited for a worker",
     .read = [](Now now) { return Plain(now.workers.refused); }},
    {.name = "ringside_turns_refused_total",
     .help = "Turns refused because they would wait for too long (--max-wait-s)",
     .label = "reason",
     .value = "overloaded",
     .of_engine = [](const FleetEngine& now) { return Plain(now.stats.turns_refused); }},
    {.name = "ringside_prompt_tokens_prefilled_total",
     .help = "Input tokens computed",
     .of_engine = [](const FleetEngine& now) { return Plain(now.stats.tokens_prefilled); }},
    {.name = "ringside_prompt_tokens_cached_total",
     .help = "Input tokens found in a slot",
     .of_engine = [](const FleetEngine& now) { return Plain(now.stats.tokens_reused); }},
    {.name = "ringside_prompt_tokens_total",
     .help = "Input tokens, computed or found",
     .of_engine = [](const FleetEngine& now) { return Plain(now.stats.tokens_prefilled + now.stats.tokens_reused); }},
    {.name = "ringside_generation_tokens_total",
     .help = "Tokens generated",
     .of_engine = [](const FleetEngine& now) { return Plain(now.stats.tokens_decoded); }},
    {.name = "ringside_spec_decode_num_draft_tokens_total",
     .help = "Draft tokens verified by the engine's steps",
     .of_engine = [](const FleetEngine& now) { return Plain(now.stats.tokens_drafted); }},
    {.name = "ringside_spec_decode_num_accepted_tokens_total",
     .help = "Draft tokens that became part of an answer",
     .of_engine = [](const FleetEngine& now) { return Plain(now.stats.drafts_accepted); }},
    {.name = "ringside_ring_evicted_tokens_total",
     .help = "Tokens that left a window",
     .of_engine = [](const FleetEngine& now) { return Plain(now.stats.tokens_evicted); }},
    {.name = "ringside_cache_rebuilds_total",
     .help = "Caches computed anew from their tokens",
     .of_engine = [](const FleetEngine& now) { return Plain(now.stats.rebuilds); }},
    {.name = "ringside_slots_taken_total",
     .help = "Slots taken from idle conversations",
     .of_engine = [](const FleetEngine& now) { return Plain(now.stats.slots_taken); }},
    {.name = "ringside_prefix_tokens_shared_total",
     .help = "Tokens of new conversations taken over from others of the same account that begin with the same",
     .of_engine = [](const FleetEngine& now) { return Plain(now.stats.tokens_shared); }},
    {.name = "ringside_cache_written_back_total",
     .help = "Caches of idle conversations copied to the tiers before their slots were wanted",
     .of_engine = [](const FleetEngine& now) { return Plain(now.stats.written_back); }},
    {.name = "ringside_turns_gave_way_total",
     .help = "Running turns whose caches had to leave for want of memory",
     .of_engine = [](const FleetEngine& now) { return Plain(now.stats.turns_preempted_for_memory); }},
    {.name = "ringside_turns_preempted_total",
     .help = "Running turns that gave their slots to accounts with fewer running turns or tokens",
     .of_engine = [](const FleetEngine& now) { return Plain(now.stats.turns_preempted); }},
    {.name = "ringside_caches_dropped_total",
     .help = "Caches that left their slots unsaved because no tier had room for them",
     .of_engine = [](const FleetEngine& now) { return Plain(now.stats.caches_dropped); }},
    {.name = "ringside_engine_steps_total",
     .help = "Steps of the engine",
     .of_engine = [](const FleetEngine& now) { return Plain(now.stats.steps); }},
    {.name = "process_cpu_seconds_total",
     .help = "Processor time of this process",
     .read = [](Now now) { return now.process.cpu_seconds; }},
    {.name = "ringside_cache_spills_total",
     .help = kSpillsHelp,
     .label = "to",
     .value = "host",
     .of_engine = [](const FleetEngine& now) { return Plain(now.stats.captures); }},
    {.name = "ringside_cache_spills_total",
     .help = kSpillsHelp,
     .label = "to",
     .value = "disk",
     .read = [](Now now) { return Plain(now.tiers.demoted); }},
    {.name = "ringside_cache_spill_bytes_total",
     .help = kSpillBytesHelp,
     .label = "to",
     .value = "host",
     .of_engine = [](const FleetEngine& now) { return Plain(now.stats.captured_bytes); }},
    {.name = "ringside_cache_spill_bytes_total",
     .help = kSpillBytesHelp,
     .label = "to",
     .value = "disk",
     .read = [](Now now) { return Plain(now.tiers.demoted_bytes); }},
    {.name = "ringside_cache_capture_seconds_total",
     .help = "The engine's time for copying caches out of slots",
     .of_engine = [](const FleetEngine& now) { return now.stats.capture_ms * 1e-3; }},
    {.name = "ringside_cache_saves_refused_total",
     .help = "Caches not saved because too many were on their way",
     .of_engine = [](const FleetEngine& now) { return Plain(now.stats.saves_refused); }},
    {.name = "ringside_cache_restores_total",
     .help = kRestoresHelp,
     .label = "from",
     .value = "host",
     .of_engine = [](const FleetEngine& now) { return Plain(now.stats.restores_host); }},
    {.name = "ringside_cache_restores_total",
     .help = kRestoresHelp,
     .label = "from",
     .value = "disk",
     .of_engine = [](const FleetEngine& now) { return Plain(now.stats.restores_disk); }},
    {.name = "ringside_cache_restored_bytes_total",
     .help = "Bytes copied back into slots",
     .of_engine = [](const FleetEngine& now) { return Plain(now.stats.restored_bytes); }},
    {.name = "ringside_cache_restore_seconds_total",
     .help = "From asking for a stored cache to its end in a slot, of all",
     .of_engine = [](const FleetEngine& now) { return now.stats.restore_ms * 1e-3; }},
    {.name = "ringside_cache_recomputed_instead_total",
     .help = kInsteadHelp,
     .label = "reason",
     .value = "faster",
     .of_engine = [](const FleetEngine& now) { return Plain(now.stats.recomputed_instead); }},
    {.name = "ringside_cache_recomputed_instead_total",
     .help = kInsteadHelp,
     .label = "reason",
     .value = "late",
     .of_engine = [](const FleetEngine& now) { return Plain(now.stats.fetches_late); }},
    {.name = "ringside_cache_recomputed_instead_total",
     .help = kInsteadHelp,
     .label = "reason",
     .value = "failed",
     .of_engine = [](const FleetEngine& now) { return Plain(now.stats.fetches_failed); }},
    {.name = "ringside_cache_lost_total",
     .help = kGoneHelp,
     .label = "reason",
     .value = "room",
     .read = [](Now now) { return Plain(now.tiers.dropped); }},
    {.name = "ringside_cache_lost_total",
     .help = kGoneHelp,
     .label = "reason",
     .value = "idle",
     .read = [](Now now) { return Plain(now.tiers.expired); }},
    {.name = "ringside_cache_lost_total",
     .help = kGoneHelp,
     .label = "reason",
     .value = "damaged",
     .read = [](Now now) { return Plain(now.tiers.damaged); }},
    {.name = "ringside_journal_commits_total",
     .help = "Synced batches",
     .read = [](Now now) { return Plain(now.journal.commits); }},
    {.name = "ringside_journal_entries_total",
     .help = "Changes made durable",
     .read = [](Now now) { return Plain(now.journal.entries); }},
    {.name = "ringside_journal_records_total",
     .help = "Records made durable",
     .read = [](Now now) { return Plain(now.journal.records); }},
    {.name = "ringside_journal_bytes_total",
     .help = "Bytes of these records",
     .read = [](Now now) { return Plain(now.journal.bytes); }},
    {.name = "ringside_journal_refused_total",
     .help = "Changes refused for want of room",
     .read = [](Now now) { return Plain(now.journal.refused); }},
    {.name = "ringside_journal_sync_seconds_total",
     .help = "Time of all syncs",
     .read = [](Now now) { return now.journal.sync_ms_total * 1e-3; }},
    {.name = "ringside_session_loads_total",
     .help = "Conversations and chains read from the journal",
     .read = [](Now now) { return Plain(now.sessions.loads); }},
    {.name = "ringside_session_unloads_total",
     .help = "Conversations and chains taken out of memory again",
     .read = [](Now now) { return Plain(now.sessions.unloads); }},
    {.name = "ringside_session_expired_total",
     .help = "Conversations and chains deleted because of their age",
     .read = [](Now now) { return Plain(now.sessions.expired); }},
    {.name = "ringside_turns_interrupted_total",
     .help = "Answers found cut by the end of an earlier process",
     .read = [](Now now) { return Plain(now.sessions.interrupted); }},
};

MetricLabels LabelsOf(const Row& row, std::optional<size_t> engine) {
  MetricLabels labels;
  if (row.label[0] != '\0') labels[row.label] = row.value;
  if (engine) labels["engine"] = std::to_string(*engine);
  return labels;
}

}  // namespace

struct FollowedFigures::Series {
  template <class Metric>
  struct Followed {
    const Row* row;
    size_t engine;
    Metric* metric;
    double seen = 0;

    double Read(const MetricsSnapshot& now) const {
      if (row->read != nullptr) return row->read(now);
      return engine < now.engines.size() ? row->of_engine(now.engines[engine]) : 0;
    }
  };
  std::vector<Followed<Gauge>> gauges;
  std::vector<Followed<Counter>> counters;
};

FollowedFigures::FollowedFigures(MetricRegistry& registry, size_t engines) : series_(std::make_unique<Series>()) {
  // Registering a family again returns the existing one.
  const auto add = [engines](const Row& row, auto& family, auto& all) {
    if (row.read != nullptr || engines == 1) {
      all.push_back({&row, 0, &family.Add(LabelsOf(row, std::nullopt))});
    } else {
      for (size_t i = 0; i < engines; ++i) all.push_back({&row, i, &family.Add(LabelsOf(row, i))});
    }
  };
  for (const Row& row : kGauges) {
    add(row, registry.AddGauges(row.name, row.help), series_->gauges);
  }
  for (const Row& row : kCounters) {
    add(row, registry.AddCounters(row.name, row.help), series_->counters);
  }
}

FollowedFigures::~FollowedFigures() = default;

void FollowedFigures::Set(const MetricsSnapshot& now) {
  for (const auto& followed : series_->gauges) followed.metric->Set(followed.Read(now));
  for (auto& followed : series_->counters) {
    const double total = followed.Read(now);
    if (total > followed.seen) followed.metric->Increment(total - std::exchange(followed.seen, total));
  }
}

}  // namespace ringside
