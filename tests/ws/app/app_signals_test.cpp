#include "ws/app/app_signals.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

namespace ringside {
namespace {

TEST(SignalWatcherDeathTest, SigpipeAndSigxfszEndNothing) {
  EXPECT_EXIT(
      {
        SignalWatcher signals;
        raise(SIGPIPE);
        raise(SIGXFSZ);
        _exit(7);
      },
      ::testing::ExitedWithCode(7), "");
}

TEST(SignalWatcherDeathTest, HangupIsReportedOnceAndEndsNothing) {
  EXPECT_EXIT(
      {
        SignalWatcher signals;
        kill(getpid(), SIGHUP);
        while (!signals.TakeHangup()) usleep(1000);
        const bool again = signals.TakeHangup();
        _exit(again || signals.Wait(std::chrono::milliseconds(0)) ? 1 : 7);
      },
      ::testing::ExitedWithCode(7), "");
}

}  // namespace
}  // namespace ringside
