// Compacted histories in the form that clients keep: an opaque text (`encrypted_content` of a compaction item or block)
// that a client sends back, and the compaction of a request's history above a threshold. The opaque text is neither
// secret nor authenticated: a client may put any messages into it.
// THREAD: any; CompactAbove: a worker.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "session/table/session_table.h"
#include "ws/fields/ignored_fields.h"
#include "ws/json/json_writer.h"

namespace ringside {

struct Compaction {
  bool whole = false;  // `items` replace everything before them except leading system messages
  std::vector<NewItem> items;
};

std::string EncodeCompaction(const Compaction& compaction);
/// Appends the items of an opaque text to `history`, or replaces it.
/// ERRORS: kInvalidArgument (invalid_value) for a text not made by EncodeCompaction, because the history is lost
/// without it.
Status ReadCompaction(const std::string& opaque, const std::string& param, IgnoredFields* ignored,
                      std::vector<NewItem>* history);

/// The messages that the turn reads, and the number of those from a stored chain or conversation.
struct WholeHistory {
  std::vector<NewItem> items;  // stored ones first, then the request's
  size_t stored = 0;
};
Result<WholeHistory> HistoryOf(const SessionTable& table, const Caller& caller, const TurnSpec& spec);
/// Summarizes `items`, the first ones of the history.
Result<Summary> SummarizeHistory(SessionTable& table, const Caller& caller, const TurnSpec& spec,
                                 const WholeHistory& history, size_t items, const std::string& instructions);

struct CompactionReport {
  int64_t tokens_before = 0, tokens_after = 0;  // of the input
  Summary summary;
};
/// Writes the member `compaction`; without `tokens_after` if that is 0.
void WriteCompactionReport(JsonWriter& json, const CompactionReport& report);
/// If the input of `spec` exceeds `compact_above` tokens, replaces its history by a summary: a stateless request's
/// messages, a chain by a fork, a conversation in place. Messages after the last answer are kept. Returns nullopt if it
/// does not exceed the limit or has no earlier message.
/// ERRORS: as Summarize.
Result<std::optional<CompactionReport>> CompactAbove(SessionTable& table, const Caller& caller,
                                                     const std::string& instructions, TurnSpec* spec);
/// Replaces the messages of a conversation by a summary, keeping those after the last answer. The resulting number of
/// tokens is unknown (0).
/// ERRORS: as CompactAbove; kInvalidArgument if there is no answer.
Result<CompactionReport> CompactConversation(SessionTable& table, const Caller& caller, const std::string& id,
                                             const std::string& instructions);
/// As CompactAbove, for a protocol whose response object contains the report. No effect without `compact_above`.
Status CompactAndReport(SessionTable& table, const Caller& caller, TurnSpec* spec);

}  // namespace ringside
