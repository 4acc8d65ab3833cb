// Identity of a cache's rows: which first rows two caches have in common, bit for bit. A cache that writes rows is
// their writer; a copy of the cache keeps the writers of the copied rows. So the common rows of two caches are those
// before the first position at which their writers differ, and no list of donors and copies has to be kept: it does not
// matter which of them still exist. Rows computed twice from the same tokens have two writers. Owned by a Ring, copied
// into snapshots. THREAD: engine; copies may be destroyed on another one.
#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <vector>

namespace ringside {

class RowOrigins {
 public:
  RowOrigins() = default;
  // A copy has the same rows, and is not their writer.
  RowOrigins(const RowOrigins& other) : runs_(other.runs_) {}
  RowOrigins& operator=(const RowOrigins& other) {
    runs_ = other.runs_;
    may_extend_ = false;
    return *this;
  }
  RowOrigins(RowOrigins&&) = default;
  RowOrigins& operator=(RowOrigins&&) = default;

  /// Records that this cache has written every row from the last known one up to position `end`.
  void Write(int64_t end);
  /// Forgets the rows at and after position `to`; the next ones differ from those of every other cache.
  void RollBack(int64_t to);

  int64_t rows() const { return runs_.empty() ? 0 : runs_.back().end; }

  struct Comparison {
    int64_t common;              // number of common first rows
    std::strong_ordering order;  // arbitrary, but neighbours in this order have the most common rows
  };
  Comparison Compare(const RowOrigins& other) const;

  /// Number of changes of the writer, for tests.
  static constexpr int64_t kMaxRuns = 64;
  int64_t runs() const { return static_cast<int64_t>(runs_.size()); }

 private:
  using Writer = std::shared_ptr<const char>;  // compared by address
  /// Rows up to position `end`, from the end of the preceding run on.
  struct Run {
    int64_t end;
    Writer writer;
    /// True if no other cache has rows of this writer, so that positions may be rewritten under it.
    bool unshared() const { return writer.use_count() == 1; }
  };

  void MergeUnshared();

  std::vector<Run> runs_;
  bool may_extend_ = false;  // no other cache has rows of the last run's writer from the end of that run on
};

}  // namespace ringside
