// Share links. The owner makes, lists and revokes them; a request that presents one needs no key.
#include <algorithm>

#include "session/ids.h"
#include "session/table/table_state.h"

namespace ringside {
namespace {

Status NoShare() {
  return NotFound("This link opens nothing: it was revoked, has expired, or its conversation was deleted.", "",
                  "share_not_found");
}

}  // namespace

Result<NewShare> SessionTable::ShareSession(const Caller& caller, const std::string& id, int64_t expires_in_s) {
  ASSIGN_OR_RETURN(const auto session, state_->Find(caller, id));
  RETURN_IF_ERROR(state_->CheckDisk(caller.principal));
  const double now = state_->context->clock.WallSeconds();
  const std::string secret = MakeShareSecret();
  NewShare made{.share = {.id = MakeId("share_"),
                          .digest = DigestShareSecret(secret),
                          .created_at = now,
                          .expires_at = expires_in_s > 0 ? now + static_cast<double>(expires_in_s) : 0},
                .token = ShareToken{id, secret}.Text()};
  const auto record = [&](const Conversation& conversation) -> Result<JournalRecord> {
    const auto valid = std::ranges::count_if(conversation.shares, [&](const Share& one) { return !one.expired(now); });
    if (valid < kMaxSharesPerConversation) return EncodeShared(made.share);
    return Status(StatusCode::kOverloaded,
                  "The conversation has " + std::to_string(valid) + " share links, the limit; revoke one first.", "",
                  "rate_limit_exceeded");
  };
  RETURN_IF_ERROR(session->Edit(record, [&](Conversation* conversation) {
    std::erase_if(conversation->shares, [&](const Share& one) { return one.expired(now); });
    conversation->shares.push_back(made.share);
  }));
  return made;
}

Result<std::vector<Share>> SessionTable::ListShares(const Caller& caller, const std::string& id) const {
  ASSIGN_OR_RETURN(const auto session, state_->Find(caller, id, State::Use::kRead));
  std::vector<Share> shares = session->Info().shares;
  std::erase_if(shares, [now = state_->context->clock.WallSeconds()](const Share& one) { return one.expired(now); });
  return shares;
}

Status SessionTable::RevokeShare(const Caller& caller, const std::string& id, const std::string& share_id) {
  ASSIGN_OR_RETURN(const auto session, state_->Find(caller, id));
  const auto named = [&](const Share& share) { return share.id == share_id; };
  const auto record = [&](const Conversation& conversation) -> Result<JournalRecord> {
    if (std::ranges::any_of(conversation.shares, named)) return EncodeName(RecordType::kUnshared, share_id);
    return NotFound("No share link '" + share_id.substr(0, 64) + "' of this conversation.", "share_id",
                    "share_not_found");
  };
  return session->Edit(record, [&](Conversation* conversation) { std::erase_if(conversation->shares, named); });
}

Result<SharedSession> SessionTable::ReadShare(std::string_view text) const {
  const std::optional<ShareToken> token = ParseShareToken(text);
  if (!token) return NoShare();
  std::string owner;
  {
    std::lock_guard lock(state_->mutex);
    const auto at = state_->sessions.find(token->session);
    if (at == state_->sessions.end() && !state_->shared) return NoShare();
    if (at != state_->sessions.end()) owner = at->second.owner;
  }
  if (owner.empty() && state_->shared) {
    Result<std::string> stored = state_->shared.OwnerOf(token->session);
    if (!stored.ok()) return stored.status().code() == StatusCode::kUnavailable ? stored.status() : NoShare();
    owner = *std::move(stored);
  }
  const auto session = state_->Get(token->session, owner, State::Use::kRead);
  if (session.status().code() == StatusCode::kUnavailable || session.status().code() == StatusCode::kIo) {
    return session.status();
  }
  if (!session.ok()) return NoShare();
  SharedSession shared{.info = (*session)->Info(), .items = (*session)->Items()};
  if (!OpensShare(shared.info.shares, token->secret, state_->context->clock.WallSeconds())) return NoShare();
  return shared;
}

}  // namespace ringside
