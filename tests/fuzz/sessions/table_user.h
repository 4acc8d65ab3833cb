// A client that does whatever some bytes say: every verb of the session table, in any order, with known and unknown
// ids, while the test plays the engine. What the server has taken in or stored never breaks it; each call ends in a
// status that says whose fault it is. One thread.
#pragma once

#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "session/table/session_table.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/session/recording_sink.h"
#include "tests/session/scripted_engine.h"

namespace ringside {

class TableUser {
 public:
  /// `journal` null: sessions live in memory only. Outlives the user; whatever is in it goes with the user.
  explicit TableUser(Journal* journal = nullptr);
  ~TableUser();

  /// A journal of this process, in memory.
  static Journal& MemoryJournal();
  static SessionTableOptions Options();

  SessionTable& table() { return *table_; }
  /// Conversations that verbs may meet.
  void Meet(const std::string& conversation) { conversations_.push_back(conversation); }
  /// Those met and made.
  const std::vector<std::string>& conversations() const { return conversations_; }
  /// Conversations are stored by anybody: they may turn out to be damaged when they are read.
  void AllowDamage() { may_be_damaged_ = true; }
  void RunVerbs(Choices choices);

  const Caller me{"me", 7};

 private:
  void RunVerb(Choices& choices);
  void StartTurn(Choices& choices);
  void PlayEngine(Choices& choices);
  void ChangeItems(Choices& choices);
  void Ask(Choices& choices);
  void Forget(Choices& choices);
  void ExportAndImport(const std::string& conversation);
  /// Takes everything out of memory, so that it is read from the journal again: nothing may be lost by that.
  void Reopen();
  void EndTurns();
  void Note(const Status& status) const;
  std::string Known(const std::vector<std::string>& ids, Choices& choices) const;

  Journal* const journal_;
  bool may_be_damaged_ = false;
  ManualClock clock_;
  ByteTokenizer tokenizer_;
  ChatTemplate chat_;
  std::unique_ptr<ScriptedEngine> engine_ = std::make_unique<ScriptedEngine>();
  std::unique_ptr<SessionTable> table_;
  std::shared_ptr<RecordingSink> sink_ = std::make_shared<RecordingSink>(7);
  std::vector<bool> begun_;  // of the engine's turns
  std::vector<std::string> conversations_, responses_;
};

/// Gives random ids in bytes other ones of the same length, which are the same in every run.
class FixedIds {
 public:
  std::string Replace(std::string bytes);

 private:
  std::map<std::string, std::string> names_;
};

/// Bytes that stand for some verbs, other ones at every call.
std::string AnyVerbs(std::mt19937& random);

}  // namespace ringside
