// A cache of compiled grammars by format. Evicts the least recently used ones that no answer uses. THREAD: any.
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

/// Parses a format; not for free text. ERRORS: kInvalidArgument with the format's `param`, or with the part that
/// exhausted the budget.
Result<GrammarSource> SourceOf(const AnswerFormat& format, GrammarBudget& budget);

class GrammarCache {
 public:
  /// REQUIRES: `tokenizer` outlives the cache and all grammars.
  explicit GrammarCache(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  /// Returns the grammar, compiled on a miss on the lane for long work (RunLongWork), in milliseconds and at most
  /// limits::kMaxGrammarSteps. Null for free text. The result pins it for `owner` until destroyed. ERRORS:
  /// kInvalidArgument as SourceOf; kOverloaded as GrammarPins::Pin and RunLongWork; kCancelled once `abandoned`, polled
  /// on the compiling thread, returns true.
  Result<std::shared_ptr<const Grammar>> Get(const AnswerFormat& format, const std::string& owner = "",
                                             const std::function<bool()>& abandoned = nullptr);

  size_t size() const;
  /// Memory of all grammars, cached or in use.
  int64_t bytes() const;

 private:
  using Entry = std::pair<std::string, std::shared_ptr<const Grammar>>;

  std::shared_ptr<const GrammarVocabulary> Vocabulary();
  Result<std::shared_ptr<const Grammar>> Compile(const AnswerFormat& format, const std::function<bool()>& abandoned);
  Result<std::shared_ptr<const Grammar>> Find(const AnswerFormat& format, const std::function<bool()>& abandoned);
  /// Null on a miss.
  std::shared_ptr<const Grammar> FindCompiled(const std::string& key);
  /// Inserts `made`; returns the entry of a concurrent request if there is one.
  std::shared_ptr<const Grammar> Keep(const std::string& key, std::shared_ptr<const Grammar> made);
  /// Evicts grammars that no answer uses until `bytes` more fit.
  void MakeRoom(int64_t bytes);
  void Drop(std::list<Entry>::iterator entry);

  const Tokenizer& tokenizer_;
  std::once_flag once_;
  std::shared_ptr<const GrammarVocabulary> vocabulary_;
  mutable std::mutex mutex_;
  std::list<Entry> entries_;  // most recently used first
  std::unordered_map<std::string, std::list<Entry>::iterator> by_key_;
  int64_t key_bytes_ = 0;
  const std::shared_ptr<GrammarMemory> memory_ = std::make_shared<GrammarMemory>();
  const std::shared_ptr<GrammarPins> pins_ = std::make_shared<GrammarPins>();
};

}  // namespace ringside
