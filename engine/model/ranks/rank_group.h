// The threads of a network's ranks: each executes the posted work in order. A group of one has no thread and executes
// work inline. THREAD: one posts.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "base/status.h"

namespace ringside {

class RankGroup {
 public:
  using Work = std::function<void(size_t rank)>;

  explicit RankGroup(size_t ranks);
  /// Waits for all posted work.
  ~RankGroup();
  RankGroup(const RankGroup&) = delete;
  RankGroup& operator=(const RankGroup&) = delete;

  /// Posts work to every rank. REQUIRES: everything it references lives until a Wait has returned.
  void Post(const Work& work);
  /// Returns when all posted work is done.
  void Wait();
  /// Post and Wait.
  void Run(const Work& work);
  /// As Run, for work that may fail: returns the failure of the lowest rank that failed, after all have ended.
  Status Try(const std::function<Status(size_t rank)>& work);

 private:
  class Member;
  std::vector<Status> statuses_;                  // by rank, in Try
  std::vector<std::unique_ptr<Member>> members_;  // empty in a group of one
};

}  // namespace ringside
