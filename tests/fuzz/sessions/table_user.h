// A client controlled by the input: every verb of the session table, in any order, with known and unknown ids, while
// the test plays the engine. Imported or stored data must never break the server; each call returns a status that
// attributes the fault. THREAD: one.
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
  /// `journal` null: sessions are in memory only. REQUIRES: the journal outlives the user, which clears it.
  explicit TableUser(Journal* journal = nullptr);
  ~TableUser();

  /// This process's journal, in memory.
  static Journal& MemoryJournal();
  static SessionTableOptions Options();

  SessionTable& table() { return *table_; }
  /// Adds a conversation that verbs may use.
  void Meet(const std::string& conversation) { conversations_.push_back(conversation); }
  /// The added and created conversations.
  const std::vector<std::string>& conversations() const { return conversations_; }
  /// Stored conversations are untrusted: they may turn out to be damaged when loaded.
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
  /// Unloads everything, so that it is loaded from the journal again: no data may be lost.
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

/// Replaces random ids in bytes with fixed ones of the same length, the same in every run.
class FixedIds {
 public:
  std::string Replace(std::string bytes);

 private:
  std::map<std::string, std::string> names_;
};

/// Bytes that encode some verbs, different at every call.
std::string AnyVerbs(std::mt19937& random);

}  // namespace ringside
