#include "session/records.h"

#include "base/bytes.h"
#include "base/limits.h"
#include "base/refusals/context_overflow.h"
#include "session/image_records.h"

namespace ringside {
namespace {

JournalRecord Make(RecordType type, ByteWriter& out) { return {static_cast<uint8_t>(type), out.Take()}; }

template <class T>
Result<T> Checked(const ByteReader& in, T value, const char* what) {
  if (!in.done()) return Corruption(std::string("session: a damaged record: ") + what);
  return value;
}

void Write(ByteWriter& out, const std::optional<int64_t>& value) {
  out.Bool(value.has_value());
  if (value) out.Signed(*value);
}
std::optional<int64_t> ReadOptional(ByteReader& in) { return in.Bool() ? std::optional(in.Signed()) : std::nullopt; }

void Write(ByteWriter& out, const Metadata& metadata) {
  out.Unsigned(metadata.size());
  for (const auto& [key, value] : metadata) {
    out.String(key);
    out.String(value);
  }
}
Metadata ReadMetadata(ByteReader& in) {
  const size_t count = in.Count(2);
  // leaves bytes unread, so that the record is rejected
  if (count > static_cast<size_t>(limits::kMaxMetadataEntries)) return {};
  Metadata metadata(count);
  for (auto& [key, value] : metadata) {
    key = in.String();
    value = in.String();
  }
  return metadata;
}

// Writes the settings without adapter and model, which older versions lack: they come last in a record, only if set.
void Write(ByteWriter& out, const WindowOverrides& window) {
  Write(out, window.memory_len);
  Write(out, window.session_len);
  out.Bool(window.eviction.has_value());
  if (window.eviction) out.Byte(static_cast<uint8_t>(*window.eviction));
}
WindowOverrides ReadWindow(ByteReader& in) {
  WindowOverrides window;
  window.memory_len = ReadOptional(in);
  window.session_len = ReadOptional(in);
  if (in.Bool()) window.eviction = in.Enum(Eviction::kToken);
  return window;
}

void WriteName(ByteWriter& out, const std::string& name) {
  if (!name.empty()) out.String(name);
}
std::string ReadName(ByteReader& in) { return in.done() ? "" : in.String(); }

// Role and flags of the optional parts after the text: reasoning, tool calls, the form of a cut answer, images. Items
// of older versions have none.
constexpr uint8_t kRoles = 4, kHasCalls = 4, kHasForm = 8, kHasReasoning = 16, kHasImages = 32;

void Write(ByteWriter& out, const Item& item) {
  const bool calls = item.calls_at >= 0 || !item.call_ids.empty(), form = item.form.size() > 0;
  const bool reasoning = item.reasoning.size() > 0;
  const int flags = (calls ? kHasCalls : 0) | (form ? kHasForm : 0) | (reasoning ? kHasReasoning : 0) |
                    (item.images.empty() ? 0 : kHasImages);
  out.String(item.id);
  out.Byte(static_cast<uint8_t>(static_cast<uint8_t>(item.role) | flags));
  out.String(item.text);
  if (reasoning) out.String(item.reasoning);
  if (calls) {
    out.Signed(item.calls_at);
    out.String(item.call_ids);
  }
  if (form) out.String(item.form);
  if (!item.images.empty()) WriteDigests(item.images, &out);
  out.Bool(item.complete);
  out.Bool(item.sampled);
  out.Signed(item.token_begin);
  out.Signed(item.token_end);
  out.Byte(static_cast<uint8_t>(item.end));
}
Item ReadItem(ByteReader& in) {
  Item item;
  item.id = in.String();
  const uint8_t role = in.Enum<uint8_t>(kRoles - 1 + kHasCalls + kHasForm + kHasReasoning + kHasImages);
  item.role = static_cast<ChatRole>(role % kRoles);
  item.text = in.String();
  if ((role & kHasReasoning) != 0) item.reasoning = in.String();
  if ((role & kHasCalls) != 0) {
    item.calls_at = in.Signed();
    item.call_ids = in.String();
  }
  if ((role & kHasForm) != 0) item.form = in.String();
  if ((role & kHasImages) != 0) item.images = ReadDigests(&in);
  item.complete = in.Bool();
  item.sampled = in.Bool();
  item.token_begin = in.Signed();
  item.token_end = in.Signed();
  item.end = in.Enum(TimelineEnd::kResultsOpen);
  return item;
}

void Write(ByteWriter& out, const std::vector<TokenId>& tokens) {
  out.Unsigned(tokens.size());
  for (const TokenId id : tokens) out.Signed(id);
}
TokenId ReadToken(ByteReader& in) {
  const int64_t id = in.Signed();
  return id >= 0 && id < kAnyVocabulary ? static_cast<TokenId>(id) : -1;
}
std::vector<TokenId> ReadTokens(ByteReader& in) {
  std::vector<TokenId> tokens(in.Count());
  for (TokenId& id : tokens) id = ReadToken(in);
  return tokens;
}

constexpr uint8_t kHasInstructions = 1, kHasTools = 2;

void Write(ByteWriter& out, const TimelinePatch& patch) {
  out.Signed(patch.keep_items);
  out.Signed(patch.keep_tokens);
  out.Signed(patch.keep_starts);
  out.Unsigned(patch.items.size());
  for (const Item& item : patch.items) Write(out, item);
  Write(out, patch.tokens);
  out.Unsigned(patch.message_starts.size());
  for (const int64_t start : patch.message_starts) out.Signed(start);
  out.Byte(static_cast<uint8_t>((patch.instructions ? kHasInstructions : 0) | (patch.tools ? kHasTools : 0)));
  if (patch.instructions) out.String(*patch.instructions);
  if (patch.tools) out.String(*patch.tools);
  out.Signed(patch.pinned);
  out.Signed(patch.answer_begin);
  out.Byte(static_cast<uint8_t>(patch.end));
}
/// Limits on the number of elements, checked before memory is allocated.
struct PatchLimits {
  size_t items = SIZE_MAX, tokens = SIZE_MAX;
  bool whole = false;  // a timeline from its start, not a difference
};
Result<TimelinePatch> ReadPatch(ByteReader& in, const PatchLimits& most = {}) {
  TimelinePatch patch;
  patch.keep_items = in.Signed();
  patch.keep_tokens = in.Signed();
  patch.keep_starts = in.Signed();
  const size_t items = in.Count(8);
  if (items > most.items) {
    return InvalidArgument("A conversation has at most " + std::to_string(most.items) + " items.", "body",
                           "array_above_max_length");
  }
  patch.items.resize(items);
  for (Item& item : patch.items) item = ReadItem(in);
  const size_t tokens = in.Count();
  if (tokens > most.tokens) {
    return ContextOverflow{.limit = static_cast<int64_t>(most.tokens), .tokens = static_cast<int64_t>(tokens)}.ToStatus(
        "body");
  }
  patch.tokens.resize(tokens);
  for (TokenId& id : patch.tokens) id = ReadToken(in);
  const size_t starts = in.Count();
  if (most.whole && starts > tokens + 1) return Corruption("session: more message starts than tokens");
  patch.message_starts.resize(starts);
  for (int64_t& start : patch.message_starts) start = in.Signed();
  const uint8_t head = in.Enum<uint8_t>(kHasInstructions | kHasTools);
  if ((head & kHasInstructions) != 0) patch.instructions = in.String();
  if ((head & kHasTools) != 0) patch.tools = in.String();
  patch.pinned = in.Signed();
  patch.answer_begin = in.Signed();
  patch.end = in.Enum(TimelineEnd::kResultsOpen);
  return patch;
}

void Write(ByteWriter& out, const Status& status) {
  out.Byte(static_cast<uint8_t>(status.code()));
  for (const std::string* text : {&status.message(), &status.param(), &status.reason()}) out.String(*text);
}
Status ReadStatus(ByteReader& in) {
  const auto code = in.Enum(StatusCode::kUnavailable);
  std::string message = in.String(), param = in.String(), reason = in.String();
  return {code, std::move(message), std::move(param), std::move(reason)};
}

void Write(ByteWriter& out, const CacheReport& report) {
  out.Byte(static_cast<uint8_t>(report.source));
  for (const int64_t number : {report.tokens_reused, report.tokens_computed, report.tokens_evicted,
                               report.messages_evicted, report.position}) {
    out.Signed(number);
  }
  out.Double(report.restore_ms);
}
CacheReport ReadReport(ByteReader& in) {
  CacheReport report;
  report.source = in.Enum(CacheSource::kRecomputed);
  for (int64_t* number : {&report.tokens_reused, &report.tokens_computed, &report.tokens_evicted,
                          &report.messages_evicted, &report.position}) {
    *number = in.Signed();
  }
  report.restore_ms = in.Double();
  return report;
}

void Write(ByteWriter& out, const ClampedLimits& clamped) {
  Write(out, clamped.memory_len);
  Write(out, clamped.session_len);
  Write(out, clamped.pinned);
}
ClampedLimits ReadClamped(ByteReader& in) {
  ClampedLimits clamped;
  clamped.memory_len = ReadOptional(in);
  clamped.session_len = ReadOptional(in);
  clamped.pinned = ReadOptional(in);
  return clamped;
}

void Write(ByteWriter& out, const SamplingParams& p) {
  for (const double number : {p.temperature, p.top_p, p.min_p, p.repetition_penalty, p.presence_penalty,
                              p.frequency_penalty, p.top_p_decay, p.top_p_min}) {
    out.Double(number);
  }
  out.Signed(p.top_k);
  out.Unsigned(p.seed);
  out.Signed(p.min_tokens);
  out.Signed(p.logprobs);
  out.Signed(p.top_p_reset);
  out.Unsigned(p.logit_bias.size());
  for (const auto& [id, bias] : p.logit_bias) {
    out.Signed(id);
    out.Double(bias);
  }
}
void Write(ByteWriter& out, const BeamParams& beams) {
  out.Signed(beams.width);
  out.Double(beams.length_penalty);
  out.Byte(static_cast<uint8_t>(beams.early_stopping));
  out.Double(beams.diversity_rate);
}
BeamParams ReadBeams(ByteReader& in) {
  BeamParams beams;
  beams.width = in.Signed();
  beams.length_penalty = in.Double();
  beams.early_stopping = in.Enum(BeamParams::EarlyStopping::kNever);
  beams.diversity_rate = in.Double();
  return beams;
}

SamplingParams ReadSampling(ByteReader& in) {
  SamplingParams p;
  for (double* number : {&p.temperature, &p.top_p, &p.min_p, &p.repetition_penalty, &p.presence_penalty,
                         &p.frequency_penalty, &p.top_p_decay, &p.top_p_min}) {
    *number = in.Double();
  }
  p.top_k = in.Signed();
  p.seed = in.Unsigned();
  p.min_tokens = in.Signed();
  p.logprobs = in.Signed();
  p.top_p_reset = ReadToken(in);
  p.logit_bias.resize(in.Count(9));
  for (auto& [id, bias] : p.logit_bias) {
    id = ReadToken(in);
    bias = static_cast<float>(in.Double());
  }
  return p;
}

Result<TimelineRecord> ReadTimeline(std::string_view bytes, const PatchLimits& most) {
  ByteReader in(bytes);
  TimelineRecord record;
  ASSIGN_OR_RETURN(record.patch, ReadPatch(in, most));
  record.truncates = in.Bool();
  return Checked(in, std::move(record), "timeline");
}

}  // namespace

bool SameCodec(std::string_view stored, std::string_view ours) {
  return stored == ours || (ours.starts_with(stored) && ours.substr(stored.size()).starts_with('.'));
}

JournalRecord Encode(const CreatedRecord& record) {
  ByteWriter out;
  out.String(record.owner);
  out.Double(record.created_at);
  Write(out, record.metadata);
  Write(out, record.window);
  out.Unsigned(record.epoch);
  out.String(record.codec);
  record.window.model.empty() ? WriteName(out, record.window.adapter) : out.String(record.window.adapter);
  WriteName(out, record.window.model);
  return Make(RecordType::kCreated, out);
}
Result<CreatedRecord> DecodeCreated(std::string_view bytes) {
  ByteReader in(bytes);
  CreatedRecord record;
  record.owner = in.String();
  record.created_at = in.Double();
  record.metadata = ReadMetadata(in);
  record.window = ReadWindow(in);
  record.epoch = in.Unsigned();
  record.codec = in.String();
  record.window.adapter = ReadName(in);
  record.window.model = ReadName(in);
  return Checked(in, std::move(record), "created");
}

JournalRecord EncodeMetadata(const Metadata& metadata) {
  ByteWriter out;
  Write(out, metadata);
  return Make(RecordType::kMetadata, out);
}
Result<Metadata> DecodeMetadata(std::string_view bytes) {
  ByteReader in(bytes);
  Metadata metadata = ReadMetadata(in);
  return Checked(in, std::move(metadata), "metadata");
}

JournalRecord Encode(const TimelineRecord& record) {
  ByteWriter out;
  Write(out, record.patch);
  out.Bool(record.truncates);
  return Make(RecordType::kTimeline, out);
}
Result<TimelineRecord> DecodeTimeline(std::string_view bytes) { return ReadTimeline(bytes, {}); }
Result<TimelineRecord> DecodeImportedTimeline(std::string_view bytes, int64_t max_tokens) {
  return ReadTimeline(bytes, {kMaxTimelineItems, static_cast<size_t>(max_tokens), true});
}

JournalRecord Encode(const TurnRecord& record) {
  ByteWriter out;
  for (const std::string* text :
       {&record.response_id, &record.item_id, &record.previous_id, &record.request_key, &record.echo}) {
    out.String(*text);
  }
  for (const bool flag : {record.stored, record.warm_up, record.logprobs, record.recomputed, record.renumbers}) {
    out.Bool(flag);
  }
  out.Double(record.created_at);
  Write(out, record.patch);
  out.Signed(record.items_before);
  Write(out, record.sampling);
  out.Signed(record.max_tokens);
  // Fields that older versions lack come last, only if set.
  const bool compaction = !record.compaction.empty(), ignored = compaction || !record.ignored_reasoning.empty();
  const bool adapter = ignored || !record.adapter.empty();
  const bool beams = record.sampling.beams.searches() || adapter;
  const bool form = record.form.size() > 0 || beams;
  const bool calls = record.calls != CallPlace::kNone || form;
  if (record.clamped.any() || calls) Write(out, record.clamped);
  if (calls) out.Byte(static_cast<uint8_t>(record.calls));
  if (form || (calls && record.syntax != ToolSyntaxName::kHermes)) out.Byte(static_cast<uint8_t>(record.syntax));
  if (form) out.String(record.form);
  if (beams) Write(out, record.sampling.beams);
  if (adapter) out.String(record.adapter);
  if (ignored) {
    out.Unsigned(record.ignored_reasoning.size());
    for (const std::string& name : record.ignored_reasoning) out.String(name);
  }
  if (compaction) out.String(record.compaction);
  return Make(RecordType::kTurn, out);
}
Result<TurnRecord> DecodeTurn(std::string_view bytes) {
  ByteReader in(bytes);
  TurnRecord record;
  for (std::string* text :
       {&record.response_id, &record.item_id, &record.previous_id, &record.request_key, &record.echo}) {
    *text = in.String();
  }
  for (bool* flag : {&record.stored, &record.warm_up, &record.logprobs, &record.recomputed, &record.renumbers}) {
    *flag = in.Bool();
  }
  record.created_at = in.Double();
  ASSIGN_OR_RETURN(record.patch, ReadPatch(in));
  record.items_before = in.Signed();
  record.sampling = ReadSampling(in);
  record.max_tokens = in.Signed();
  if (!in.rest().empty()) record.clamped = ReadClamped(in);
  if (!in.rest().empty()) record.calls = in.Enum(CallPlace::kStart);
  if (!in.rest().empty()) record.syntax = in.Enum(kLastToolSyntax);
  if (!in.rest().empty()) record.form = in.String();
  if (!in.rest().empty()) record.sampling.beams = ReadBeams(in);
  record.adapter = ReadName(in);
  if (!in.rest().empty()) {
    record.ignored_reasoning.resize(in.Count());
    for (std::string& name : record.ignored_reasoning) name = in.String();
  }
  if (!in.rest().empty()) record.compaction = in.String();
  return Checked(in, std::move(record), "turn");
}

JournalRecord EncodeStarted(const CacheReport& report) {
  ByteWriter out;
  Write(out, report);
  if (report.tokens_replayed > 0) out.Signed(report.tokens_replayed);
  return Make(RecordType::kStarted, out);
}
Result<CacheReport> DecodeStarted(std::string_view bytes) {
  ByteReader in(bytes);
  CacheReport report = ReadReport(in);
  if (!in.rest().empty()) report.tokens_replayed = in.Signed();
  return Checked(in, report, "started");
}

JournalRecord Encode(const TokensRecord& record, bool logprobs) {
  ByteWriter out;
  out.String(record.text);
  out.Bool(logprobs);
  out.Unsigned(record.tokens.size());
  for (const OutputToken& token : record.tokens) {
    out.Signed(token.id);
    if (!logprobs) continue;
    out.Double(token.logprob);
    out.Unsigned(token.top.size());
    for (const TokenLogprob& other : token.top) {
      out.Signed(other.id);
      out.Double(other.logprob);
    }
  }
  if (!record.reasoning.empty() || record.reasoning_tokens > 0 || record.reasoning_ended) {
    out.String(record.reasoning);
    out.Signed(record.reasoning_tokens);
    out.Bool(record.reasoning_ended);
  }
  return Make(RecordType::kTokens, out);
}
Result<TokensRecord> DecodeTokens(std::string_view bytes) {
  ByteReader in(bytes);
  TokensRecord record;
  record.text = in.String();
  const bool logprobs = in.Bool();
  record.tokens.resize(in.Count());
  for (OutputToken& token : record.tokens) {
    token.id = ReadToken(in);
    if (!logprobs) continue;
    token.logprob = static_cast<float>(in.Double());
    token.top.resize(in.Count(9));
    for (TokenLogprob& other : token.top) {
      other.id = ReadToken(in);
      other.logprob = static_cast<float>(in.Double());
    }
  }
  if (!in.rest().empty()) {
    record.reasoning = in.String();
    record.reasoning_tokens = in.Signed();
    record.reasoning_ended = in.Bool();
  }
  return Checked(in, std::move(record), "tokens");
}

JournalRecord Encode(const EndRecord& record) {
  ByteWriter out;
  out.Byte(static_cast<uint8_t>(record.reason));
  out.String(record.incomplete_reason);
  out.String(record.stop_string);
  Write(out, record.error);
  Write(out, record.tail);
  Write(out, record.report);
  for (const double ms : {record.times.queue_ms, record.times.prefill_ms, record.times.decode_ms}) out.Double(ms);
  out.Double(record.completed_at);
  for (const double ms : {record.times.slot_ms, record.times.others_ms}) out.Double(ms);
  out.Double(record.ended_s);
  const bool drafted = record.drafts.steps > 0, replayed = drafted || record.report.tokens_replayed > 0;
  if (record.reasoning_tokens > 0 || record.cut_in_reasoning || replayed) {
    out.Signed(record.reasoning_tokens);
    out.Bool(record.cut_in_reasoning);
    out.Double(record.times.reasoning_ms);
  }
  if (replayed) out.Signed(record.report.tokens_replayed);
  if (drafted) {
    for (const int64_t count : {record.drafts.steps, record.drafts.drafted, record.drafts.accepted}) out.Signed(count);
  }
  return Make(RecordType::kEnd, out);
}
Result<EndRecord> DecodeEnd(std::string_view bytes) {
  ByteReader in(bytes);
  EndRecord record;
  record.reason = in.Enum(FinishReason::kRepetition);
  record.incomplete_reason = in.String();
  record.stop_string = in.String();
  record.error = ReadStatus(in);
  record.tail = ReadTokens(in);
  record.report = ReadReport(in);
  for (double* ms : {&record.times.queue_ms, &record.times.prefill_ms, &record.times.decode_ms}) *ms = in.Double();
  record.completed_at = in.Double();
  if (in.done()) return record;  // end of an older version's record
  for (double* ms : {&record.times.slot_ms, &record.times.others_ms}) *ms = in.Double();
  if (!in.done()) record.ended_s = in.Double();
  if (!in.rest().empty()) {
    record.reasoning_tokens = in.Signed();
    record.cut_in_reasoning = in.Bool();
    record.times.reasoning_ms = in.Double();
  }
  if (!in.rest().empty()) record.report.tokens_replayed = in.Signed();
  if (!in.rest().empty()) {
    for (int64_t* count : {&record.drafts.steps, &record.drafts.drafted, &record.drafts.accepted}) *count = in.Signed();
  }
  return Checked(in, std::move(record), "end");
}

JournalRecord Encode(const InterruptedRecord& record) {
  ByteWriter out;
  if (!record.cause.ok()) Write(out, record.cause);
  return Make(RecordType::kInterrupted, out);
}
Result<InterruptedRecord> DecodeInterrupted(std::string_view bytes) {
  InterruptedRecord record;
  ByteReader in(bytes);
  if (in.done()) return record;
  record.cause = ReadStatus(in);
  return Checked(in, std::move(record), "interrupted");
}

JournalRecord Encode(const AttachedRecord& record) {
  ByteWriter out;
  out.Unsigned(record.epoch);
  return Make(RecordType::kAttached, out);
}
Result<AttachedRecord> DecodeAttached(std::string_view bytes) {
  ByteReader in(bytes);
  const AttachedRecord record{in.Unsigned()};
  return Checked(in, record, "attached");
}

JournalRecord EncodeName(RecordType type, const std::string& name) {
  ByteWriter out;
  out.String(name);
  return Make(type, out);
}
JournalRecord EncodeAbandoned() { return {static_cast<uint8_t>(RecordType::kAbandoned), ""}; }
Result<std::string> DecodeName(std::string_view bytes) {
  ByteReader in(bytes);
  std::string name = in.String();
  return Checked(in, std::move(name), "name");
}

void SetSummary(const SessionSummary& summary, JournalEntry* entry) {
  entry->summary = Encode(summary);
  entry->label = {.owner = summary.owner,
                  .conversation = entry->session.starts_with("conv_"),
                  .created_at = summary.created_at,
                  .used_s = summary.used_s};
}

std::string Encode(const SessionSummary& summary) {
  ByteWriter out;
  out.String(summary.owner);
  out.Double(summary.created_at);
  out.Double(summary.updated_at);
  out.Unsigned(summary.seq);
  Write(out, summary.metadata);
  Write(out, summary.window);
  for (const int64_t number :
       {summary.items, summary.tokens, summary.position, summary.pinned, summary.tokens_evicted}) {
    out.Signed(number);
  }
  out.Unsigned(summary.epoch);
  out.String(summary.window.adapter);  // omitted where empty, as in older versions
  out.Double(summary.used_s);
  WriteName(out, summary.window.model);
  return out.Take();
}
Result<SessionSummary> DecodeSummary(std::string_view bytes) {
  ByteReader in(bytes);
  SessionSummary summary;
  summary.owner = in.String();
  summary.created_at = in.Double();
  summary.updated_at = in.Double();
  if (in.done()) return summary;  // end of an older version's record
  summary.seq = in.Unsigned();
  summary.metadata = ReadMetadata(in);
  summary.window = ReadWindow(in);
  for (int64_t* number :
       {&summary.items, &summary.tokens, &summary.position, &summary.pinned, &summary.tokens_evicted}) {
    *number = in.Signed();
  }
  summary.epoch = in.Unsigned();
  summary.window.adapter = ReadName(in);
  if (!in.done()) summary.used_s = in.Double();
  summary.window.model = ReadName(in);
  return Checked(in, std::move(summary), "summary");
}

}  // namespace ringside
