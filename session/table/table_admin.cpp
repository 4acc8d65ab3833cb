// Administration of single sessions: export, import, verification.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/worker_pool.h"
#include "session/ids.h"
#include "session/table/portable_session.h"
#include "session/table/table_state.h"

namespace ringside {

namespace {

Status CheckExportBytes(size_t bytes) {
  if (bytes <= static_cast<size_t>(kMaxPortableBytes)) return Status::Ok();
  return InvalidArgument(
      fmt::format("An export of this conversation would have {} MiB. An import may have {}: fork the "
                  "conversation before its last images, or delete messages with images.",
                  (bytes + (1 << 20) - 1) >> 20, kMaxPortableBytes >> 20),
      "", "export_too_large");
}

/// Bytes of the image files, each once.
size_t ImageBytes(const Timeline& timeline) {
  std::set<Sha256Digest> seen;
  size_t bytes = 0;
  for (const Item& item : timeline.items()) {
    for (const ItemImage& image : item.images) {
      if (seen.insert(image.file->digest).second) bytes += image.file->bytes.size();
    }
  }
  return bytes;
}

}  // namespace

Result<std::string> SessionTable::ExportSession(const Caller& caller, const std::string& id) {
  ASSIGN_OR_RETURN(const auto session, state_->Find(caller, id, State::Use::kRead));
  const auto encode = [&]() -> Result<std::string> {
    ASSIGN_OR_RETURN(const Timeline timeline, session->CopyTimeline(std::nullopt));
    RETURN_IF_ERROR(CheckExportBytes(ImageBytes(timeline)));
    const SessionInfo info = session->Info();
    std::string bytes = EncodePortable(options().export_key,
                                       {.created_at = info.created_at,
                                        .metadata = info.metadata,
                                        .window = session->window(),
                                        .codec = state_->models.Known(session->window().model)->codec_name},
                                       {timeline.PatchFrom(Timeline()), false});
    RETURN_IF_ERROR(CheckExportBytes(bytes.size()));
    return bytes;
  };
  Result<std::string> bytes = std::string();
  RETURN_IF_ERROR(RunLongWork([&] { bytes = encode(); }));  // exports can have tens of MB
  return bytes;
}

Result<SessionInfo> SessionTable::ImportSession(const Caller& caller, std::string_view bytes) {
  RETURN_IF_ERROR(state_->MakeRoom(caller.principal, static_cast<int64_t>(bytes.size())));
  const std::string& codec = state_->context->codec_name;
  const ImportRules rules{options().export_key, options().accept_foreign_imports, codec, options().session_len};
  ASSIGN_OR_RETURN(PortableSession in, DecodePortable(bytes, rules));
  // Without its model here, the first turn names another, which tokenizes the text.
  const auto found = state_->models.Open(in.created.window.model);
  const auto model = found.ok() ? *found : state_->context;
  const bool bound = options().models != nullptr && found.ok() && !in.created.window.model.empty();
  in.created.window.model = bound ? model->options.model_name : "";
  const bool ours = SameCodec(in.created.codec, model->codec_name);
  Timeline timeline;
  if (!timeline.Apply(std::move(in.timeline), ours ? model->vocabulary() : kAnyVocabulary).ok()) {
    return InvalidArgument("The body is not an exported conversation: its contents are inconsistent.", "body",
                           "invalid_value");
  }
  if (!ours || !timeline.PlacedImages(model->codec.images).ok()) timeline.ForgetTokens();
  auto session = std::make_shared<Session>(model, MakeId("conv_"), caller.principal, std::move(in.created.metadata),
                                           in.created.window);
  session->Adopt(std::move(timeline), 0, {});  // no cache
  RETURN_IF_ERROR(state_->AddSession(session));
  return state_->InfoOf(*session);
}

std::vector<OwnerTotals> SessionTable::Owners() const {
  std::map<std::string, OwnerTotals> totals;
  if (state_->shared) {
    for (OwnerTotals& stored : state_->shared.Owners()) totals[stored.owner] = stored;
  } else {
    std::lock_guard lock(state_->mutex);
    for (const auto& [owner, sessions] : state_->owners) totals[owner].conversations = std::ssize(sessions);
    for (const auto& [owner, chains] : state_->chains_of) totals[owner].chains = std::ssize(chains);
  }
  {
    std::lock_guard lock(state_->turns->mutex);
    for (const auto& [owner, turns] : state_->turns->by_owner) totals[owner].turns = turns;
  }
  std::vector<OwnerTotals> owners;
  for (auto& [owner, total] : totals) {
    total.owner = owner;
    if (!state_->shared) total.stored_bytes = *state_->context->shared->stored_by_owner.Of(owner);
    total.text_bytes = *state_->context->shared->bytes_by_owner.Of(owner);
    owners.push_back(std::move(total));
  }
  return owners;
}

void SessionTable::HandOver(bool all) {
  if (state_->shared) state_->shared.HandOver(all);
}

int64_t SessionTable::Held() const {
  if (!state_->shared) return 0;
  std::lock_guard lock(state_->mutex);
  return std::ranges::count_if(state_->sessions,
                               [](const auto& one) { return !one.first.starts_with(TieredStore::kMemoryOnly); });
}

Result<SessionVerdict> SessionTable::VerifySession(const std::string& id) {
  if (!id.starts_with("conv_") || !Knows(id)) return NoConversation(id);
  if (state_->journal == nullptr) return SessionVerdict{true, 0, "It is in memory only."};
  ASSIGN_OR_RETURN(const DiskWait wait, DiskWait::Begin());
  const Result<uint64_t> records = state_->CheckStored(id);
  if (records.ok()) return SessionVerdict{true, *records, ""};
  if (records.status().code() != StatusCode::kCorruption) return records.status();
  return SessionVerdict{false, 0, state_->journal->DamageOf(id).value_or("")};
}

Status SessionTable::CheckStored(const std::stop_token& stop) {
  // A shared store may be large: each read verifies the session it reads.
  if (state_->journal == nullptr || state_->shared) return Status::Ok();
  std::vector<std::string> keys;
  {
    std::lock_guard lock(state_->mutex);
    keys.reserve(state_->sessions.size());
    for (const auto& [key, known] : state_->sessions) keys.push_back(key);
  }
  for (const std::string& key : keys) {
    if (stop.stop_requested()) return {StatusCode::kCancelled, "the check of what is stored was stopped"};
    const Status checked = state_->CheckStored(key).status();
    if (checked.code() == StatusCode::kIo) return checked;  // not found: deleted meanwhile; damaged: marked from now on
  }
  return Status::Ok();
}

}  // namespace ringside
