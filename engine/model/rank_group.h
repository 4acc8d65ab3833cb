// The threads of a network's ranks: work that all of them do in the order in which it was posted. A group of one has no
// thread: its work is done at once, by whoever posts it. Posted by one thread.
#pragma once

#include <functional>
#include <memory>
#include <vector>

namespace ringside {

class RankGroup {
 public:
  using Work = std::function<void(size_t rank)>;

  explicit RankGroup(size_t ranks);
  /// Ends when all that was posted is done.
  ~RankGroup();
  RankGroup(const RankGroup&) = delete;
  RankGroup& operator=(const RankGroup&) = delete;

  size_t ranks() const { return ranks_; }
  /// Every rank does it, soon. What it refers to must stay until a Run has returned.
  void Post(const Work& work);
  /// The same, and waits until all have.
  void Run(const Work& work);

 private:
  class Member;
  size_t ranks_;
  std::vector<std::unique_ptr<Member>> members_;  // none in a group of one
};

}  // namespace ringside
