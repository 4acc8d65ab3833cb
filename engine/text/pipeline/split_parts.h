// Combines the matches and gaps of a text into words, by a step's behaviour. One per text. THREAD: one at a time.
#pragma once

#include <utility>

#include "engine/text/pipeline/function_ref.h"
#include "engine/text/pipeline/steps.h"

namespace ringside {

class SplitParts {
 public:
  using OnPart = FunctionRef<bool(size_t begin, size_t end)>;
  SplitParts(PreTokenizerStep::Behaviour behaviour, OnPart take) : behaviour_(behaviour), take_(take) {}

  /// Adds the next part, which begins at the end of the previous one; an empty part splits there. False if a word was
  /// refused.
  bool Add(size_t begin, size_t end, bool match) {
    const bool joins = open_ && Joins(match);
    previous_match_ = match;
    if (joins) {
      end_ = end;
      return true;
    }
    if (!Finish()) return false;
    open_ = behaviour_ != PreTokenizerStep::Behaviour::kRemoved || !match;
    begin_ = begin;
    end_ = end;
    return true;
  }
  /// Call after the last part. False if a word was refused.
  bool Finish() {
    const bool take = std::exchange(open_, false) && begin_ < end_;
    return !take || take_(begin_, end_);
  }

 private:
  bool Joins(bool match) const {
    switch (behaviour_) {
      case PreTokenizerStep::Behaviour::kIsolated:
      case PreTokenizerStep::Behaviour::kRemoved:
        return false;
      case PreTokenizerStep::Behaviour::kContiguous:
        return match == previous_match_;
      case PreTokenizerStep::Behaviour::kMergedWithPrevious:
        return match && !previous_match_;
      case PreTokenizerStep::Behaviour::kMergedWithNext:
        return !match && previous_match_;
    }
    return false;
  }

  const PreTokenizerStep::Behaviour behaviour_;
  const OnPart take_;
  bool open_ = false, previous_match_ = false;
  size_t begin_ = 0, end_ = 0;
};

}  // namespace ringside
