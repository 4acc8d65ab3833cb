// A session's place in the journal: whether the journal has it, the last durable record, and the codec of its token
// ids. Counts the journal bytes of the session for its owner. Owned by its Session, used under the session's lock.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "session/bound_context.h"
#include "session/journal/journal.h"
#include "session/session_context.h"

namespace ringside {

class SessionJournal {
 public:
  SessionJournal(BoundContext context, std::string key, const std::string& owner);
  /// Sets the state of a session that was read from the journal, without counting its bytes.
  void Load(const JournalPosition& last, std::string codec);

  /// True if the journal has the session, or will have it: later records follow the same path.
  bool durable() const { return durable_; }
  void SetDurable(bool durable) { durable_ = durable; }
  /// The last durable record; seq 0 = none.
  const JournalPosition& recorded() const { return recorded_; }
  void SetRecorded(const JournalPosition& last);
  /// The journal was asked to delete the session: its bytes no longer count.
  void Erased();
  /// Journal bytes of the owner.
  int64_t stored_by_owner() const { return *owners_stored_; }

  /// The journal's ids belong to another codec: a kRetokenised record must precede ours.
  bool foreign() const;
  /// Size of the vocabulary of the journal's ids.
  int64_t vocabulary() const;
  /// ERRORS: kCorruption for an id outside the vocabulary.
  Status CheckRecorded(TokenId id) const;
  /// `codec`: of the journal's token ids, as far as read or written.
  void SetCodec(std::string codec) { codec_ = std::move(codec); }

  /// The model, as far as read or written.
  const std::string& model() const { return model_; }
  void SetModel(std::string model) { model_ = std::move(model); }

  /// Marks the summary as outdated. Returns true if it is to be written and was not marked before.
  bool SetChanged();
  bool changed() const { return changed_; }
  void ClearChanged() { changed_ = false; }
  /// An entry with these records of the session.
  JournalEntry Entry(std::vector<JournalRecord> records) const;

 private:
  const BoundContext context_;
  const std::string key_;
  const std::shared_ptr<std::atomic<int64_t>> owners_stored_;
  bool durable_ = false;
  bool changed_ = false;  // the summary is outdated
  bool erased_ = false;
  JournalPosition recorded_;
  std::string codec_, model_;
};

}  // namespace ringside
