// Ranks that are threads of one process. Each publishes the address of its values between two barriers.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <thread>

#include "base/check.h"
#include "kernels/ranks/comm.h"

namespace ringside {
namespace {

// Spins before a rank sleeps: the others do the same work and are usually close.
constexpr int kSpins = 2000;

/// State shared by the ranks of a group.
class Rendezvous {
 public:
  /// `member`: the name of a rank in failure messages.
  Rendezvous(int ranks, std::chrono::milliseconds timeout, std::string member)
      : timeout_(timeout), member_(std::move(member)), came_(static_cast<size_t>(ranks), 0) {
    for (Shown& round : shown_) round.resize(static_cast<size_t>(ranks));
  }

  int ranks() const { return static_cast<int>(came_.size()); }
  std::chrono::milliseconds timeout() const { return timeout_; }
  Status status() const {
    std::lock_guard lock(mutex_);
    return failure_;
  }

  using Shown = std::vector<const void*>;  // by rank

  /// Waits for all ranks and returns the pointers that they published, valid until this rank's next meeting; null once
  /// the group has failed.
  const Shown* Meet(int rank, const void* shows) {
    std::unique_lock lock(mutex_);
    if (!failure_.ok()) return nullptr;
    const uint64_t round = round_;
    // Double-buffered: early arrivals at the next meeting do not overwrite the pointers of this one.
    Shown& shown = shown_[round % 2];
    shown[static_cast<size_t>(rank)] = shows;
    came_[static_cast<size_t>(rank)] = round + 1;
    if (++waiting_ == ranks()) {
      waiting_ = 0;
      round_ = round + 1;
      lock.unlock();
      changed_.notify_all();
      return &shown;
    }
    lock.unlock();
    for (int i = 0; i < kSpins; ++i) {
      if (round_ != round) return &shown;
      std::this_thread::yield();
    }
    lock.lock();
    if (!changed_.wait_for(lock, timeout_, [&] { return round_ != round || !failure_.ok(); })) {
      const auto late = std::ranges::find_if(came_, [&](uint64_t last) { return last != round + 1; });
      Fail(fmt::format("{} {} did not respond within {} ms", member_, late - came_.begin(), timeout_.count()));
    }
    return round_ != round ? &shown : nullptr;
  }

  void Leave(int rank) {
    std::lock_guard lock(mutex_);
    Fail(fmt::format("{} {} has left its group", member_, rank));
  }

  // Point-to-point messages.
  void Put(int from, int to, const void* data, size_t bytes) {
    std::unique_lock lock(mutex_);
    mail_.push_back({from, to, {static_cast<const std::byte*>(data), static_cast<const std::byte*>(data) + bytes}});
    lock.unlock();
    changed_.notify_all();
  }
  void Take(int from, int to, void* data, size_t bytes) {
    std::unique_lock lock(mutex_);
    auto letter = mail_.end();
    const auto there = [&] {
      letter = std::ranges::find_if(mail_, [&](const Letter& one) { return one.from == from && one.to == to; });
      return letter != mail_.end() || !failure_.ok();
    };
    if (!changed_.wait_for(lock, timeout_, there)) {
      Fail(fmt::format("{} {} sent no data within {} ms", member_, from, timeout_.count()));
    }
    if (letter == mail_.end()) return;
    CHECK_EQ(letter->data.size(), bytes);
    std::memcpy(data, letter->data.data(), bytes);
    mail_.erase(letter);
  }

 private:
  struct Letter {
    int from, to;
    std::vector<std::byte> data;
  };

  /// REQUIRES: the lock is held. The first failure is kept.
  void Fail(const std::string& what) {
    if (!failure_.ok()) return;
    failure_ = Unavailable(what);
    changed_.notify_all();
  }

  const std::chrono::milliseconds timeout_;
  const std::string member_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<uint64_t> round_{0};
  int waiting_ = 0;
  Shown shown_[2];
  std::vector<uint64_t> came_;  // last round that each rank has reached, from 1
  std::vector<Letter> mail_;
  Status failure_;
};

class ThreadComm final : public Comm {
 public:
  ThreadComm(std::shared_ptr<Rendezvous> meeting, int rank) : rendezvous_(std::move(meeting)), rank_(rank) {}
  ~ThreadComm() override { rendezvous_->Leave(rank_); }

  int rank() const override { return rank_; }
  int ranks() const override { return rendezvous_->ranks(); }
  std::chrono::milliseconds timeout() const override { return rendezvous_->timeout(); }
  Status status() const override { return rendezvous_->status(); }

  // Reduce-scatter, then all-gather: each rank first reduces its part of all values into its own buffer, which no other
  // rank reads before the second meeting.
  void AllReduceSum(float* x, int64_t count) override {
    const auto border = [&](int rank) { return count * rank / ranks(); };
    const Rendezvous::Shown* all = rendezvous_->Meet(rank_, x);
    if (all == nullptr) return;
    for (int64_t i = border(rank_); i < border(rank_ + 1); ++i) {
      float sum = Floats(all, 0)[i];
      for (int rank = 1; rank < ranks(); ++rank) sum += Floats(all, rank)[i];
      x[i] = sum;
    }
    all = rendezvous_->Meet(rank_, x);
    if (all == nullptr) return;
    for (int rank = 0; rank < ranks(); ++rank) {
      const float* from = Floats(all, rank);
      if (rank != rank_) std::copy(from + border(rank), from + border(rank + 1), x + border(rank));
    }
    Barrier();
  }

  void AllGather(const void* mine, size_t bytes, void* all) override {
    const Rendezvous::Shown* shown = rendezvous_->Meet(rank_, mine);
    if (shown == nullptr) return;
    for (size_t rank = 0; rank < shown->size(); ++rank) {
      std::memcpy(static_cast<std::byte*>(all) + rank * bytes, (*shown)[rank], bytes);
    }
    Barrier();
  }

  void Broadcast(void* data, size_t bytes, int root) override {
    const Rendezvous::Shown* shown = rendezvous_->Meet(rank_, data);
    if (shown == nullptr) return;
    if (rank_ != root) std::memcpy(data, (*shown)[static_cast<size_t>(root)], bytes);
    Barrier();
  }

  void Send(const void* data, size_t bytes, int to) override { rendezvous_->Put(rank_, to, data, bytes); }
  void Receive(void* data, size_t bytes, int from) override { rendezvous_->Take(from, rank_, data, bytes); }
  void Barrier() override { rendezvous_->Meet(rank_, nullptr); }

 private:
  static const float* Floats(const Rendezvous::Shown* all, int rank) {
    return static_cast<const float*>((*all)[static_cast<size_t>(rank)]);
  }

  std::shared_ptr<Rendezvous> rendezvous_;
  int rank_;
};

std::vector<std::unique_ptr<Comm>> MakeGroup(int ranks, std::chrono::milliseconds timeout, const char* member) {
  const auto meeting = std::make_shared<Rendezvous>(ranks, timeout, member);
  std::vector<std::unique_ptr<Comm>> comms;
  for (int rank = 0; rank < ranks; ++rank) comms.push_back(std::make_unique<ThreadComm>(meeting, rank));
  return comms;
}

}  // namespace

std::vector<std::unique_ptr<Comm>> MakeThreadComms(int ranks, std::chrono::milliseconds timeout) {
  return MakeGroup(ranks, timeout, "rank");
}

std::vector<RankComms> MakeThreadComms(const RankLayout& layout, std::chrono::milliseconds timeout) {
  std::vector<RankComms> all(static_cast<size_t>(layout.ranks()));
  const auto rank_of = [&](int stage, int place) {
    return static_cast<size_t>((layout.stages - 1 - stage) * layout.tensor + place);
  };
  for (int stage = 0; layout.tensor > 1 && stage < layout.stages; ++stage) {
    auto comms = MakeGroup(layout.tensor, timeout, "rank");
    for (int place = 0; place < layout.tensor; ++place) {
      all[rank_of(stage, place)].layer = std::move(comms[static_cast<size_t>(place)]);
    }
  }
  for (int place = 0; layout.stages > 1 && place < layout.tensor; ++place) {
    auto comms = MakeGroup(layout.stages, timeout, "stage");
    for (int stage = 0; stage < layout.stages; ++stage) {
      all[rank_of(stage, place)].stages = std::move(comms[static_cast<size_t>(stage)]);
    }
  }
  return all;
}

}  // namespace ringside
