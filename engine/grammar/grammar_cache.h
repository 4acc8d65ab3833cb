// The grammars that answers follow now and followed last, compiled: least recently used ones go first. Thread-safe.
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

#include "base/status.h"
#include "engine/grammar/answer_format.h"
#include "engine/grammar/grammar.h"

namespace ringside {

/// The grammar of a format, as it is written; not of free text. kInvalidArgument with the format's `param`.
Result<GrammarSource> SourceOf(const AnswerFormat& format);

class GrammarCache {
 public:
  /// `tokenizer` outlives the cache and all grammars.
  explicit GrammarCache(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  /// Compiles the grammar if it is not there; on a worker, for that takes milliseconds, at most about a second. Null
  /// for free text. kInvalidArgument with the format's `param`.
  Result<std::shared_ptr<const Grammar>> Get(const AnswerFormat& format);

  size_t size() const;

 private:
  using Entry = std::pair<std::string, std::shared_ptr<const Grammar>>;

  std::shared_ptr<const GrammarVocabulary> Vocabulary();

  const Tokenizer& tokenizer_;
  std::once_flag once_;
  std::shared_ptr<const GrammarVocabulary> vocabulary_;
  mutable std::mutex mutex_;
  std::list<Entry> entries_;  // last used first
  std::unordered_map<std::string, std::list<Entry>::iterator> by_key_;
};

}  // namespace ringside
