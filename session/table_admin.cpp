// What an operator does with single sessions: take one out, bring one in, look whether one is whole.
#include <xxhash.h>

#include "base/bytes.h"
#include "session/ids.h"
#include "session/table_state.h"

namespace ringside {
namespace {

constexpr std::string_view kMagic = "ringside session 1\n";

Status NoExport(const char* what) {
  return InvalidArgument(std::string("These bytes are no exported conversation: ") + what + ".", "body",
                         "invalid_value");
}

}  // namespace

Result<std::string> SessionTable::ExportSession(const Caller& caller, const std::string& id) {
  ASSIGN_OR_RETURN(const auto session, state_->Find(caller, id));
  ASSIGN_OR_RETURN(const Timeline timeline, session->CopyTimeline(std::nullopt));
  const SessionInfo info = session->Info();
  ByteWriter out;
  out.String(Encode(CreatedRecord{.created_at = info.created_at,
                                  .metadata = info.metadata,
                                  .window = session->window(),
                                  .codec = state_->context->codec_name})
                 .payload);
  out.String(Encode(TimelineRecord{timeline.PatchFrom(Timeline()), false}).payload);
  std::string bytes = std::string(kMagic) + out.Take();
  ByteWriter checksum;
  checksum.Fixed64(XXH3_64bits(bytes.data(), bytes.size()));
  return bytes + checksum.bytes();
}

Result<SessionInfo> SessionTable::ImportSession(const Caller& caller, std::string_view bytes) {
  constexpr size_t kChecksumBytes = 8;
  if (!bytes.starts_with(kMagic)) return NoExport("they begin otherwise");
  if (bytes.size() < kMagic.size() + kChecksumBytes) return NoExport("they are cut");
  const std::string_view content = bytes.substr(0, bytes.size() - kChecksumBytes);
  ByteReader checksum(bytes.substr(content.size()));
  if (checksum.Fixed64() != XXH3_64bits(content.data(), content.size())) return NoExport("they are damaged");
  ByteReader in(content.substr(kMagic.size()));
  const std::string created_bytes = in.String(), timeline_bytes = in.String();
  if (!in.done()) return NoExport("they are cut");
  Result<CreatedRecord> created = DecodeCreated(created_bytes);
  Result<TimelineRecord> record = DecodeTimeline(timeline_bytes);
  if (!created.ok() || !record.ok() || record->patch.answer_begin != -1) return NoExport("they make no sense");
  Timeline timeline;
  const bool ours = created->codec == state_->context->codec_name;
  if (!timeline.Apply(std::move(record->patch), ours ? tokenizer().vocab_size() : INT64_MAX).ok()) {
    return NoExport("they make no sense");
  }
  if (!ours) timeline.ForgetTokens();
  if (timeline.pinned() > options().pinned_max) return NoExport("it pins more tokens than this server does");
  RETURN_IF_ERROR(state_->CheckWindow(created->window));
  RETURN_IF_ERROR(state_->MakeRoom());
  auto session = std::make_shared<Session>(state_->context, MakeId("conv_"), caller.principal,
                                           std::move(created->metadata), created->window);
  session->Adopt(std::move(timeline), NextEngineId());
  RETURN_IF_ERROR(state_->AddSession(session));
  return state_->InfoOf(*session);
}

Result<SessionVerdict> SessionTable::VerifySession(const Caller& caller, const std::string& id) {
  {
    std::lock_guard lock(state_->mutex);
    const auto at = state_->sessions.find(id);
    if (!id.starts_with("conv_") || at == state_->sessions.end() || at->second.owner != caller.principal) {
      return NoConversation(id);
    }
  }
  if (state_->journal == nullptr) return SessionVerdict{true, 0, "It is in memory only."};
  const auto transcript = state_->journal->Read(id);
  if (transcript.ok()) return SessionVerdict{true, transcript->last.seq, ""};
  if (transcript.status().code() != StatusCode::kCorruption) return transcript.status();
  return SessionVerdict{false, 0, transcript.status().message()};
}

}  // namespace ringside
