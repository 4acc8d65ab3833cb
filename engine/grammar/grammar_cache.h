// Compiled grammars by format. Evicts the least recently used ones that no answer uses. Thread-safe.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

#include "base/status.h"
#include "engine/grammar/answer_format.h"
#include "engine/grammar/grammar.h"
#include "engine/grammar/grammar_pins.h"

namespace ringside {

/// The grammar of a format, as it is written; not of free text. kInvalidArgument with the format's `param`, or what of
/// it the budget was spent on.
Result<GrammarSource> SourceOf(const AnswerFormat& format, GrammarBudget& budget);

class GrammarCache {
 public:
  /// `tokenizer` outlives the cache and all grammars.
  explicit GrammarCache(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  /// Compiles the grammar if it is not there, on the lane for long work (RunLongWork), in milliseconds and at
  /// most limits::kMaxGrammarSteps. Null for free text. The result pins it for `owner` until it is destroyed.
  /// kInvalidArgument as SourceOf; kOverloaded as GrammarPins::Pin and RunLongWork; kCancelled once `abandoned`, polled
  /// meanwhile on the thread that compiles, returns true.
  Result<std::shared_ptr<const Grammar>> Get(const AnswerFormat& format, const std::string& owner = "",
                                             const std::function<bool()>& abandoned = nullptr);

  size_t size() const;
  /// Memory of all grammars that are kept or in use.
  int64_t bytes() const;

 private:
  using Entry = std::pair<std::string, std::shared_ptr<const Grammar>>;

  std::shared_ptr<const GrammarVocabulary> Vocabulary();
  Result<std::shared_ptr<const Grammar>> Compile(const AnswerFormat& format, const std::function<bool()>& abandoned);
  Result<std::shared_ptr<const Grammar>> Find(const AnswerFormat& format, const std::function<bool()>& abandoned);
  /// Null if it is not there.
  std::shared_ptr<const Grammar> FindCompiled(const std::string& key);
  /// `made`, or what another request has put there meanwhile.
  std::shared_ptr<const Grammar> Keep(const std::string& key, std::shared_ptr<const Grammar> made);
  /// Drops what no answer uses until the others and `bytes` more fit.
  void MakeRoom(int64_t bytes);
  void Drop(std::list<Entry>::iterator entry);

  const Tokenizer& tokenizer_;
  std::once_flag once_;
  std::shared_ptr<const GrammarVocabulary> vocabulary_;
  mutable std::mutex mutex_;
  std::list<Entry> entries_;  // last used first
  std::unordered_map<std::string, std::list<Entry>::iterator> by_key_;
  int64_t key_bytes_ = 0;
  const std::shared_ptr<GrammarMemory> memory_ = std::make_shared<GrammarMemory>();
  const std::shared_ptr<GrammarPins> pins_ = std::make_shared<GrammarPins>();
};

}  // namespace ringside
