// The threads of a network's ranks: work that all of them do in the order in which it was posted. A group of one has no
// thread: its work is done at once, by whoever posts it. Posted by one thread.
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
  /// Ends when all that was posted is done.
  ~RankGroup();
  RankGroup(const RankGroup&) = delete;
  RankGroup& operator=(const RankGroup&) = delete;

  /// Every rank does it, soon. What it refers to must stay until a Wait has returned.
  void Post(const Work& work);
  /// Returns when all that was posted is done.
  void Wait();
  /// Both.
  void Run(const Work& work);
  /// The same for work that may fail: the failure of the first rank that did, once all have ended.
  Status Try(const std::function<Status(size_t rank)>& work);

 private:
  class Member;
  std::vector<Status> statuses_;                  // of each rank, in Try
  std::vector<std::unique_ptr<Member>> members_;  // none in a group of one
};

}  // namespace ringside
