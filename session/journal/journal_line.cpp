#include "session/journal/journal_line.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace ringside {

void JournalLine::Add(std::vector<JournalOperation> operations) {
  for (JournalOperation& operation : operations) {
    operation.number = ++last_number_;
    if (operation.kind == JournalOperation::Kind::kFlush) {
      flushes_.push_back(std::move(operation));
      continue;
    }
    const auto behind = sessions_in_large_.find(operation.entry.session);
    if (operation.bytes <= kLargeBytes && behind == sessions_in_large_.end()) {
      small_.push_back(std::move(operation));
      continue;
    }
    ++sessions_in_large_[operation.entry.session];
    large_.push_back(std::move(operation));
  }
}

std::vector<JournalOperation> JournalLine::Take() {
  std::vector<JournalOperation> taken;
  // A large operation does not overtake an earlier small one, which may be of the same session.
  const auto passes = [this] { return !small_.empty() && large_.front().number > small_.front().number; };
  const bool large = !large_.empty() && (small_.empty() || (large_is_next_ && !passes()));
  large_is_next_ = !large && !large_.empty();
  std::deque<JournalOperation>& from = large ? large_ : small_;
  for (size_t bytes = 0; !from.empty() && bytes < kWriteBytes && !(large && passes()); from.pop_front()) {
    bytes += from.front().bytes;
    if (large) {
      const auto session = sessions_in_large_.find(from.front().entry.session);
      if (--session->second == 0) sessions_in_large_.erase(session);
    }
    taken.push_back(std::move(from.front()));
  }
  uint64_t oldest = std::numeric_limits<uint64_t>::max();
  if (!small_.empty()) oldest = small_.front().number;
  if (!large_.empty()) oldest = std::min(oldest, large_.front().number);
  for (; !flushes_.empty() && flushes_.front().number < oldest; flushes_.pop_front()) {
    taken.push_back(std::move(flushes_.front()));
  }
  return taken;
}

}  // namespace ringside
