#include "cache/row_origins.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace ringside {

void RowOrigins::Write(int64_t end) {
  const int64_t known = runs_.empty() ? 0 : runs_.back().end;
  CHECK_GE(end, known);
  if (end == known) return;
  if (!runs_.empty() && (may_extend_ || runs_.back().unshared())) {
    runs_.back().end = end;
    return;
  }
  MergeUnshared();
  // A new writer may take over any rows: it only hides that they are common.
  if (std::ssize(runs_) >= kMaxRuns) runs_.resize(kMaxRuns / 2);
  runs_.push_back({end, std::make_shared<const char>()});
  may_extend_ = true;
}

// Unshared neighbours need no border between them.
void RowOrigins::MergeUnshared() {
  size_t kept = 0;
  for (size_t i = 1; i < runs_.size(); ++i) {
    if (runs_[kept].unshared() && runs_[i].unshared()) {
      runs_[kept].end = runs_[i].end;
      runs_[i].writer = nullptr;
    } else if (++kept != i) {
      runs_[kept] = std::move(runs_[i]);
    }
  }
  if (!runs_.empty()) runs_.resize(kept + 1);
}

void RowOrigins::RollBack(int64_t to) {
  while (!runs_.empty() && (runs_.size() == 1 ? 0 : runs_[runs_.size() - 2].end) >= to) {
    runs_.pop_back();
    may_extend_ = false;
  }
  if (runs_.empty() || runs_.back().end <= to) return;
  runs_.back().end = to;
  may_extend_ = false;
}

RowOrigins::Comparison RowOrigins::Compare(const RowOrigins& other) const {
  const size_t count = std::min(runs_.size(), other.runs_.size());
  int64_t begin = 0;
  const auto writer_after = [](const std::vector<Run>& runs, size_t i) {
    return i + 1 < runs.size() ? runs[i + 1].writer.get() : nullptr;
  };
  for (size_t i = 0; i < count; ++i) {
    const Run &own = runs_[i], &its = other.runs_[i];
    if (own.writer != its.writer) return {begin, std::compare_three_way()(own.writer.get(), its.writer.get())};
    if (own.end < its.end) return {own.end, std::compare_three_way()(writer_after(runs_, i), its.writer.get())};
    if (own.end > its.end) return {its.end, std::compare_three_way()(own.writer.get(), writer_after(other.runs_, i))};
    begin = own.end;
  }
  return {begin, runs_.size() <=> other.runs_.size()};
}

}  // namespace ringside
