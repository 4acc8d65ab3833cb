#include "kernels/comm/exit_watch.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <condition_variable>
#include <mutex>
#include <vector>

namespace ringside {
namespace {

/// A process that waits for a signal.
class Child {
 public:
  Child() : pid_(fork()) {
    if (pid_ == 0) {
      while (true) pause();
    }
  }
  ~Child() {
    if (pid_ > 0) End();
  }
  ExitWatch::Process process() const { return {pid_, ExitWatch::Self().pid_namespace}; }
  void Send(int number) const { ASSERT_EQ(kill(pid_, number), 0); }
  void End() {
    Send(SIGKILL);
    EXPECT_EQ(waitpid(pid_, nullptr, 0), pid_);
    pid_ = -1;
  }

 private:
  pid_t pid_;
};

class ExitWatchTest : public ::testing::Test {
 protected:
  void Start() {
    watch.Start([this](int number) {
      std::lock_guard lock(mutex);
      ended.push_back(number);
      changed.notify_all();
    });
  }
  std::vector<int> Await(size_t count) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return ended.size() >= count; });
    return ended;
  }

  std::mutex mutex;
  std::condition_variable changed;
  std::vector<int> ended;
  ExitWatch watch;
};

TEST_F(ExitWatchTest, ReportsEveryExitOnce) {
  Child first, second, third;
  ASSERT_TRUE(watch.Add(1, first.process()));
  ASSERT_TRUE(watch.Add(2, second.process()));
  ASSERT_TRUE(watch.Add(3, third.process()));
  Start();
  second.End();
  EXPECT_EQ(Await(1), std::vector<int>({2}));
  third.End();
  EXPECT_EQ(Await(2), std::vector<int>({2, 3}));
}

TEST_F(ExitWatchTest, ReportsAProcessThatExitedBeforeTheWatch) {
  Child child;
  ASSERT_TRUE(watch.Add(7, child.process()));
  child.End();
  Start();
  EXPECT_EQ(Await(1), std::vector<int>({7}));
}

TEST_F(ExitWatchTest, StoppedProcessHasNotExited) {
  Child stopped, killed;
  ASSERT_TRUE(watch.Add(1, stopped.process()));
  ASSERT_TRUE(watch.Add(2, killed.process()));
  Start();
  stopped.Send(SIGSTOP);
  killed.End();
  EXPECT_EQ(Await(1), std::vector<int>({2}));
}

TEST_F(ExitWatchTest, RefusesUnwatchableProcesses) {
  Child child;
  ExitWatch::Process elsewhere = child.process();
  ++elsewhere.pid_namespace;
  EXPECT_FALSE(watch.Add(1, elsewhere));
  EXPECT_FALSE(watch.Add(1, {}));
  const ExitWatch::Process gone = child.process();
  child.End();
  EXPECT_FALSE(watch.Add(1, gone));
  Start();  // with nothing to watch
}

}  // namespace
}  // namespace ringside
