// The compiled grammars that each owner's answers use. They cannot be evicted, so their bytes are limited, in total and
// per owner. THREAD: any.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "base/status.h"
#include "engine/grammar/grammar.h"

namespace ringside {

class GrammarPins : public std::enable_shared_from_this<GrammarPins> {
 public:
  /// Pins the grammar for the owner until the result is destroyed. Counts the compiled part, which does not grow, once
  /// per owner. ERRORS: kOverloaded if all pinned grammars would take more than limits::kMaxGrammarCacheBytes, or the
  /// owner's more than half of that.
  Result<std::shared_ptr<const Grammar>> Pin(std::shared_ptr<const Grammar> grammar, const std::string& owner);
  int64_t bytes() const;

 private:
  struct Held {
    int64_t bytes = 0;                          // of all its grammars
    std::map<const Grammar*, int64_t> answers;  // number of answers per grammar
  };
  void Unpin(const Grammar& grammar, const std::string& owner);

  mutable std::mutex mutex_;
  std::map<std::string, Held> owners_;
  int64_t bytes_ = 0;
};

}  // namespace ringside
