// Compacted histories as clients keep them: an opaque text (`encrypted_content` of an item or block of type
// compaction) that a client sends back, and the compaction of a request's history above a threshold. The opaque text is
// neither secret nor authenticated: a client may send any messages in it. Any thread; CompactAbove on a worker.
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
  bool whole = false;  // `items` replace everything before them but leading system messages
  std::vector<NewItem> items;
};

std::string EncodeCompaction(const Compaction& compaction);
/// Appends the items of an opaque text to `history`, or replaces it. ERRORS: kInvalidArgument (invalid_value) for a
/// text that EncodeCompaction did not make: without it the history is lost.
Status ReadCompaction(const std::string& opaque, const std::string& param, IgnoredFields* ignored,
                      std::vector<NewItem>* history);

/// What the turn reads: the messages of a stored chain or conversation, and the number of these.
struct WholeHistory {
  std::vector<NewItem> items;  // then those of the request
  size_t stored = 0;
};
Result<WholeHistory> HistoryOf(const SessionTable& table, const Caller& caller, const TurnSpec& spec);
/// A summary of `items`, the first ones of the history.
Result<Summary> SummarizeHistory(SessionTable& table, const Caller& caller, const TurnSpec& spec,
                                 const WholeHistory& history, size_t items, const std::string& instructions);

struct CompactionReport {
  int64_t tokens_before = 0, tokens_after = 0;  // of the input
  Summary summary;
};
/// The member `compaction`; without `tokens_after` where that is 0.
void WriteCompactionReport(JsonWriter& json, const CompactionReport& report);
/// Replaces the history of `spec` by a summary where its input has more than `compact_above` tokens: of a stateless
/// request its messages, of a chain by a fork, of a conversation in place. The messages after the last answer stay.
/// Nothing: it has fewer, or there is no earlier message. ERRORS: as Summarize.
Result<std::optional<CompactionReport>> CompactAbove(SessionTable& table, const Caller& caller,
                                                     const std::string& instructions, TurnSpec* spec);
/// Replaces the messages of a conversation by a summary, but for those after the last answer if there are any. The
/// number of tokens after it is not known (0). ERRORS: as CompactAbove; kInvalidArgument where there is no answer.
Result<CompactionReport> CompactConversation(SessionTable& table, const Caller& caller, const std::string& id,
                                             const std::string& instructions);
/// As CompactAbove for a face whose response object has the report. Without `compact_above` nothing happens.
Status CompactAndReport(SessionTable& table, const Caller& caller, TurnSpec* spec);

}  // namespace ringside
