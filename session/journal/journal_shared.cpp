// The journal of a store that several servers share: claims, releases, and names of new sessions.
#include <algorithm>
#include <unordered_set>
#include <utility>

#include "session/journal/journal_format.h"
#include "session/journal/journal_impl.h"

namespace ringside {

std::vector<std::vector<JournalOperation>> SplitAtNewNames(std::vector<JournalOperation> operations) {
  std::vector<std::vector<JournalOperation>> parts;
  std::unordered_set<std::string> erased;
  for (JournalOperation& operation : operations) {
    const bool again = operation.entry.create && erased.contains(operation.entry.session);
    if (parts.empty() || again) {
      parts.emplace_back();
      erased.clear();
    }
    if (operation.kind == JournalOperation::Kind::kErase) erased.insert(operation.entry.session);
    parts.back().push_back(std::move(operation));
  }
  return parts;
}

Status ReserveNames(SharedLog& log, std::vector<JournalOperation>& operations) {
  std::vector<std::string> names;
  for (const JournalOperation& operation : operations) {
    if (operation.entry.create) names.push_back(operation.entry.session);
  }
  if (names.empty()) return Status::Ok();
  const Result<std::vector<std::string>> existing = log.Reserve(names);
  for (JournalOperation& operation : operations) {
    if (!operation.entry.create) continue;
    const std::string& session = operation.entry.session;
    if (!existing.ok()) {
      operation.status = existing.status();
    } else if (std::ranges::count(*existing, session) > 0) {
      operation.status = SessionExists(session);
    }
  }
  return existing.status();
}

Status Journal::Impl::Claim(const std::string& session) {
  RETURN_IF_ERROR(CheckSessionId(session));
  if (shared_ == nullptr) return reader_->Last(session).status();
  if (!healthy_) return StoppedStatus();
  RETURN_IF_ERROR(shared_->Claim(session));
  const Result<JournalPosition> last = reader_->Last(session);
  if (!last.ok() && last.status().code() != StatusCode::kCorruption) return last.status();
  JournalPosition position;  // a damaged one can only be erased
  if (last.ok()) position = *last;
  return Order({.kind = Operation::Kind::kClaim, .entry = {.session = session}, .last = position});
}

SharedLog* Journal::shared() const { return impl_->shared(); }
DeltaLog* Journal::deltas() const { return deltas_.get(); }
Status Journal::Claim(const std::string& session) { return impl_->Claim(session); }
Status Journal::Release(std::string session, JournalDone done) {
  return impl_->Order(
      {.kind = JournalOperation::Kind::kRelease, .entry = {.session = std::move(session)}, .done = std::move(done)});
}
Result<SealKey> Journal::ExportKey() const { return impl_->reader().ExportKey(); }
Result<std::vector<ListedSession>> Journal::List(const std::string& owner, const std::string& after,
                                                 int64_t limit) const {
  ASSIGN_OR_RETURN(const std::vector<SharedRow> rows, impl_->shared()->List(owner, after, limit));
  std::vector<ListedSession> out;
  for (const SharedRow& row : rows) out.push_back(impl_->reader().Listed(row));
  return out;
}

}  // namespace ringside
