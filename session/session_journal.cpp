#include "session/session_journal.h"

#include <utility>

#include "session/records.h"

namespace ringside {

SessionJournal::SessionJournal(BoundContext context, std::string key, const std::string& owner)
    : context_(std::move(context)),
      key_(std::move(key)),
      owners_stored_(context_->shared->stored_by_owner.Of(owner)),
      codec_(context_->codec_name) {}

void SessionJournal::Load(const JournalPosition& last, std::string codec) {
  recorded_ = last;
  codec_ = std::move(codec);
}

void SessionJournal::SetRecorded(const JournalPosition& last) {
  if (last.seq < recorded_.seq) return;  // a running turn's records may be reported after later ones
  if (!erased_) *owners_stored_ += static_cast<int64_t>(last.bytes) - static_cast<int64_t>(recorded_.bytes);
  recorded_ = last;
}

void SessionJournal::Erased() {
  erased_ = true;
  *owners_stored_ -= static_cast<int64_t>(recorded_.bytes);
}

bool SessionJournal::foreign() const { return !SameCodec(codec_, context_->codec_name); }

int64_t SessionJournal::vocabulary() const {
  return foreign() ? kAnyVocabulary : context_->vocabulary();
}

Status SessionJournal::CheckRecorded(TokenId id) const {
  return id >= 0 && id < vocabulary() ? Status::Ok() : Corruption("session: a token outside the vocabulary");
}

bool SessionJournal::SetChanged() { return durable_ && !std::exchange(changed_, true); }

JournalEntry SessionJournal::Entry(std::vector<JournalRecord> records) const {
  JournalEntry entry;
  entry.session = key_;
  entry.records = std::move(records);
  return entry;
}

}  // namespace ringside
