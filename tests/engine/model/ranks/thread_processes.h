// Threads of a test in place of processes: provides the channels that a server's processes share.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "kernels/ranks/processes.h"

namespace ringside::testing {

class ThreadProcesses final : public Processes {
 public:
  static std::vector<std::unique_ptr<Processes>> Make(int count) {
    const auto groups = std::make_shared<Groups>();
    std::vector<std::unique_ptr<Processes>> all;
    for (int i = 0; i < count; ++i) all.push_back(std::make_unique<ThreadProcesses>(groups, i, count));
    return all;
  }

  struct Groups {
    std::mutex mutex;
    std::map<int, std::vector<std::unique_ptr<Comm>>> of_processes;  // by channel
    std::map<int, std::vector<RankComms>> of_ranks;
  };
  ThreadProcesses(std::shared_ptr<Groups> groups, int number, int count)
      : groups_(std::move(groups)), number_(number), count_(count) {}

  int number() const override { return number_; }
  int count() const override { return count_; }
  int number_on_machine() const override { return number_; }
  int count_on_machine() const override { return count_; }
  std::chrono::milliseconds timeout() const override { return std::chrono::minutes(2); }
  std::unique_ptr<Comm> MakeComm(int channel, std::chrono::milliseconds) override {
    std::lock_guard lock(groups_->mutex);
    auto& all = groups_->of_processes[channel];
    if (all.empty()) all = MakeThreadComms(count_, timeout());
    return std::move(all[static_cast<size_t>(number_)]);
  }
  std::vector<RankComms> MakeComms(int channel, const RankLayout& layout, std::chrono::milliseconds) override {
    std::lock_guard lock(groups_->mutex);
    auto& all = groups_->of_ranks[channel];
    if (all.empty()) all = MakeThreadComms(layout, timeout());
    std::vector<RankComms> mine;
    const size_t each = all.size() / static_cast<size_t>(count_);
    for (size_t i = 0; i < each; ++i) mine.push_back(std::move(all[static_cast<size_t>(number_) * each + i]));
    return mine;
  }
  void AwaitFirst() override {}
  Status Leave(bool) override { return Status::Ok(); }

 private:
  std::shared_ptr<Groups> groups_;
  int number_, count_;
};

}  // namespace ringside::testing
