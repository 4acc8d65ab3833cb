#include "engine/model/ranks/rank_group.h"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

namespace ringside {

/// One rank's thread. Work items follow within microseconds, so both sides spin briefly before they sleep.
class RankGroup::Member {
 public:
  explicit Member(size_t rank) : thread_([this, rank] { Loop(rank); }) {}
  ~Member() {
    Add(nullptr);
    thread_.join();
  }

  void Add(Work work) {
    {
      std::lock_guard lock(mutex_);
      queue_.push_back(std::move(work));
      added_ = added_ + 1;
    }
    changed_.notify_one();
  }
  void WaitUntilDone() {
    const uint64_t all = added_;  // only the waiting thread adds
    for (int i = 0; i < kSpins; ++i) {
      if (done_ == all) return;
      std::this_thread::yield();
    }
    std::unique_lock lock(mutex_);
    finished_.wait(lock, [&] { return done_ == all; });
  }

 private:
  static constexpr int kSpins = 2000;

  void Loop(size_t rank) {
    for (uint64_t next = 1;; ++next) {
      for (int i = 0; i < kSpins && added_ < next; ++i) std::this_thread::yield();
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return !queue_.empty(); });
      const Work work = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      if (!work) return;
      work(rank);
      lock.lock();
      done_ = next;
      lock.unlock();
      finished_.notify_one();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_, finished_;
  std::deque<Work> queue_;
  std::atomic<uint64_t> added_{0}, done_{0};
  std::thread thread_;
};

RankGroup::RankGroup(size_t ranks) : statuses_(ranks) {
  for (size_t rank = 0; ranks > 1 && rank < ranks; ++rank) members_.push_back(std::make_unique<Member>(rank));
}

RankGroup::~RankGroup() = default;

void RankGroup::Post(const Work& work) {
  if (members_.empty()) return work(0);
  for (const auto& member : members_) member->Add(work);
}

void RankGroup::Wait() {
  for (const auto& member : members_) member->WaitUntilDone();
}

void RankGroup::Run(const Work& work) {
  Post(work);
  Wait();
}

Status RankGroup::Try(const std::function<Status(size_t rank)>& work) {
  Run([&](size_t rank) { statuses_[rank] = work(rank); });
  for (const Status& status : statuses_) RETURN_IF_ERROR(status);
  return Status::Ok();
}

}  // namespace ringside
