#include "ws/metrics_storage.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/registry.h>

#include <utility>
#include <vector>

namespace ringside {
namespace {

struct Row {
  const char* name;  // rows of one name stand together
  const char* help;
  const char *label, *value;  // "" = none
  double (*read)(const MetricsSnapshot&);
};

template <class Number>
double Plain(Number value) {
  return static_cast<double>(value);
}
using Now = const MetricsSnapshot&;

constexpr Row kGauges[] = {
    {"ringside_cache_bytes", "Stored caches", "tier", "host", [](Now now) { return Plain(now.tiers.host_bytes); }},
    {"ringside_cache_bytes", "Stored caches", "tier", "disk", [](Now now) { return Plain(now.tiers.disk_bytes); }},
    {"ringside_cache_objects", "Conversations with a stored cache", "tier", "host",
     [](Now now) { return Plain(now.tiers.host_objects); }},
    {"ringside_cache_objects", "Conversations with a stored cache", "tier", "disk",
     [](Now now) { return Plain(now.tiers.disk_objects); }},
    {"ringside_cache_waiting_bytes", "Caches that left their slots and are in no tier yet", "", "",
     [](Now now) { return Plain(now.tiers.waiting_bytes); }},
    {"ringside_cache_memory_bytes", "Host memory of caches: stored, waiting, on their way to or from a slot", "", "",
     [](Now now) { return Plain(now.tiers.memory_bytes); }},
    {"ringside_cache_disk_read_bytes_per_second", "Rate of recent reads of stored caches", "", "",
     [](Now now) { return now.tiers.disk_read_bytes_per_second; }},
    {"ringside_cache_disk_write_bytes_per_second", "Rate of recent writes of stored caches", "", "",
     [](Now now) { return now.tiers.disk_write_bytes_per_second; }},
    {"ringside_prefill_tokens_per_second", "Rate of recent prefills, by which recomputing is estimated", "", "",
     [](Now now) { return now.engine.prefill_tokens_per_second; }},
    {"ringside_chains", "Chains of responses kept without a conversation", "", "",
     [](Now now) { return Plain(now.sessions.chains); }},
    {"ringside_sessions_loaded", "Conversations and chains in memory", "", "",
     [](Now now) { return Plain(now.sessions.loaded); }},
    {"ringside_journal_sessions", "Conversations and chains on disk", "", "",
     [](Now now) { return Plain(now.journal.sessions); }},
    {"ringside_journal_damaged_sessions", "Of these, found to be damaged", "", "",
     [](Now now) { return Plain(now.journal.damaged_sessions); }},
    {"ringside_journal_unpurged_sessions", "Deleted ones whose bytes are still on the disk", "", "",
     [](Now now) { return Plain(now.journal.erased_unpurged); }},
    {"ringside_journal_queue_entries", "Changes that wait for the next commit", "", "",
     [](Now now) { return Plain(now.journal.queued); }},
    {"ringside_journal_sync_seconds_max", "Longest sync so far", "", "",
     [](Now now) { return now.journal.sync_ms_max * 1e-3; }},
};

constexpr char kSpillsHelp[] = "Caches moved down from a slot or from memory";
constexpr char kSpillBytesHelp[] = "Bytes moved down; what was there already is not moved again";
constexpr char kRestoresHelp[] = "Stored caches copied back into a slot";
constexpr char kInsteadHelp[] = "Stored caches that were not used and computed anew instead, by reason";
constexpr char kGoneHelp[] = "Stored caches given up, by reason";

constexpr Row kCounters[] = {
    {"ringside_cache_spills_total", kSpillsHelp, "to", "host", [](Now now) { return Plain(now.engine.captures); }},
    {"ringside_cache_spills_total", kSpillsHelp, "to", "disk", [](Now now) { return Plain(now.tiers.demoted); }},
    {"ringside_cache_spill_bytes_total", kSpillBytesHelp, "to", "host",
     [](Now now) { return Plain(now.engine.captured_bytes); }},
    {"ringside_cache_spill_bytes_total", kSpillBytesHelp, "to", "disk",
     [](Now now) { return Plain(now.tiers.demoted_bytes); }},
    {"ringside_cache_capture_seconds_total", "The engine's time for copying caches out of slots", "", "",
     [](Now now) { return now.engine.capture_ms * 1e-3; }},
    {"ringside_cache_saves_refused_total", "Caches not saved because too many were on their way", "", "",
     [](Now now) { return Plain(now.engine.saves_refused); }},
    {"ringside_cache_restores_total", kRestoresHelp, "from", "host",
     [](Now now) { return Plain(now.engine.restores_host); }},
    {"ringside_cache_restores_total", kRestoresHelp, "from", "disk",
     [](Now now) { return Plain(now.engine.restores_disk); }},
    {"ringside_cache_restored_bytes_total", "Bytes copied back into slots", "", "",
     [](Now now) { return Plain(now.engine.restored_bytes); }},
    {"ringside_cache_restore_seconds_total", "From asking for a stored cache to its end in a slot, of all", "", "",
     [](Now now) { return now.engine.restore_ms * 1e-3; }},
    {"ringside_cache_recomputed_instead_total", kInsteadHelp, "reason", "faster",
     [](Now now) { return Plain(now.engine.recomputed_instead); }},
    {"ringside_cache_recomputed_instead_total", kInsteadHelp, "reason", "late",
     [](Now now) { return Plain(now.engine.fetches_late); }},
    {"ringside_cache_recomputed_instead_total", kInsteadHelp, "reason", "failed",
     [](Now now) { return Plain(now.engine.fetches_failed); }},
    {"ringside_cache_lost_total", kGoneHelp, "reason", "room", [](Now now) { return Plain(now.tiers.dropped); }},
    {"ringside_cache_lost_total", kGoneHelp, "reason", "idle", [](Now now) { return Plain(now.tiers.expired); }},
    {"ringside_cache_lost_total", kGoneHelp, "reason", "damaged", [](Now now) { return Plain(now.tiers.damaged); }},
    {"ringside_journal_commits_total", "Synced batches", "", "", [](Now now) { return Plain(now.journal.commits); }},
    {"ringside_journal_entries_total", "Changes made durable", "", "",
     [](Now now) { return Plain(now.journal.entries); }},
    {"ringside_journal_records_total", "Records made durable", "", "",
     [](Now now) { return Plain(now.journal.records); }},
    {"ringside_journal_bytes_total", "Bytes of these records", "", "",
     [](Now now) { return Plain(now.journal.bytes); }},
    {"ringside_journal_refused_total", "Changes refused for want of room", "", "",
     [](Now now) { return Plain(now.journal.refused); }},
    {"ringside_journal_sync_seconds_total", "Time of all syncs", "", "",
     [](Now now) { return now.journal.sync_ms_total * 1e-3; }},
    {"ringside_session_loads_total", "Conversations and chains read from the journal", "", "",
     [](Now now) { return Plain(now.sessions.loads); }},
    {"ringside_session_unloads_total", "Conversations and chains taken out of memory again", "", "",
     [](Now now) { return Plain(now.sessions.unloads); }},
    {"ringside_session_expired_total", "Conversations and chains deleted because of their age", "", "",
     [](Now now) { return Plain(now.sessions.expired); }},
    {"ringside_turns_interrupted_total", "Answers found cut by the end of an earlier process", "", "",
     [](Now now) { return Plain(now.sessions.interrupted); }},
};

prometheus::Labels LabelsOf(const Row& row) {
  return row.label[0] == '\0' ? prometheus::Labels{} : prometheus::Labels{{row.label, row.value}};
}

}  // namespace

struct StorageMetrics::Series {
  std::vector<std::pair<const Row*, prometheus::Gauge*>> gauges;
  struct Followed {
    const Row* row;
    prometheus::Counter* counter;
    double seen = 0;
  };
  std::vector<Followed> counters;
};

StorageMetrics::StorageMetrics(prometheus::Registry& registry) : series_(std::make_unique<Series>()) {
  // Registering a family twice gives the same one.
  for (const Row& row : kGauges) {
    series_->gauges.emplace_back(
        &row, &prometheus::BuildGauge().Name(row.name).Help(row.help).Register(registry).Add(LabelsOf(row)));
  }
  for (const Row& row : kCounters) {
    series_->counters.push_back(
        {&row, &prometheus::BuildCounter().Name(row.name).Help(row.help).Register(registry).Add(LabelsOf(row))});
  }
}

StorageMetrics::~StorageMetrics() = default;

void StorageMetrics::Set(const MetricsSnapshot& now) {
  for (const auto& [row, gauge] : series_->gauges) gauge->Set(row->read(now));
  for (Series::Followed& followed : series_->counters) {
    const double total = followed.row->read(now);
    if (total > followed.seen) followed.counter->Increment(total - std::exchange(followed.seen, total));
  }
}

}  // namespace ringside
