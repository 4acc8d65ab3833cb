#include "ws/app/app_watchdog.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <filesystem>

namespace ringside {
namespace {

/// Listens in place of the service manager.
class WatchdogTest : public ::testing::Test {
 protected:
  WatchdogTest() {
    sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
    path_.copy(address.sun_path, sizeof(address.sun_path) - 1);
    EXPECT_EQ(bind(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    setenv("NOTIFY_SOCKET", path_.c_str(), 1);
    setenv("WATCHDOG_USEC", "3", 1);  // every call of Tick is due
  }
  ~WatchdogTest() override {
    unsetenv("NOTIFY_SOCKET");
    unsetenv("WATCHDOG_USEC");
    close(socket_);
    std::filesystem::remove(path_);
  }

  /// Notifications since the last call; "" = none.
  std::string Heard() {
    std::string text(4096, '\0');
    const ssize_t size = recv(socket_, text.data(), text.size(), MSG_DONTWAIT);
    text.resize(size > 0 ? static_cast<size_t>(size) : 0);
    return text;
  }
  /// Notifications after one more call of Tick.
  std::string Tended(Watchdog& watchdog) {
    usleep(10);
    watchdog.Tick([] { return "fine"; });
    return Heard();
  }

  const std::string path_ =
      (std::filesystem::temp_directory_path() / ("ringside_notify_" + std::to_string(getpid()))).string();
  const int socket_ = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  int asked_ = 0;
};

TEST_F(WatchdogTest, SignalsLivenessWhileEveryPartAnswers) {
  std::vector<std::function<void()>> owed;
  bool answers = true;
  Watchdog watchdog(
      {{"the engine", [](std::function<void()> alive) { alive(); }},
       {"the io threads", [&](std::function<void()> alive) { answers ? alive() : owed.push_back(std::move(alive)); }}});
  EXPECT_EQ(Tended(watchdog), "WATCHDOG=1\nSTATUS=fine");
  EXPECT_EQ(Tended(watchdog), "WATCHDOG=1\nSTATUS=fine");
  answers = false;
  EXPECT_EQ(Tended(watchdog), "WATCHDOG=1\nSTATUS=fine") << "asked for the last time with success before this";
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Tended(watchdog), "STATUS=no answer from the io threads");
  ASSERT_EQ(owed.size(), 1U) << "who does not answer is not asked again";
  answers = true;
  owed.front()();
  EXPECT_EQ(Tended(watchdog), "WATCHDOG=1\nSTATUS=fine");
  EXPECT_EQ(Tended(watchdog), "WATCHDOG=1\nSTATUS=fine");
}

TEST_F(WatchdogTest, NamesEverySilentPart) {
  std::function<void()> kept;
  const auto silent = [&](std::function<void()> alive) { kept = std::move(alive); };
  Watchdog watchdog({{"the engine", silent}, {"the io threads", silent}});
  EXPECT_EQ(Tended(watchdog), "WATCHDOG=1\nSTATUS=fine");
  EXPECT_EQ(Tended(watchdog), "STATUS=no answer from the engine and the io threads");
}

TEST_F(WatchdogTest, NotifiesAnAbstractSocket) {
  const std::string name = "ringside-notify-" + std::to_string(getpid());
  const int manager = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  name.copy(address.sun_path + 1, name.size());
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  ASSERT_EQ(bind(manager, reinterpret_cast<const sockaddr*>(&address), size), 0);
  setenv("NOTIFY_SOCKET", ("@" + name).c_str(), 1);
  NotifyReady("fine");
  char text[64];
  const ssize_t heard = recv(manager, text, sizeof(text), MSG_DONTWAIT);
  EXPECT_EQ(std::string(text, heard > 0 ? static_cast<size_t>(heard) : 0), "READY=1\nSTATUS=fine");
  close(manager);
}

TEST_F(WatchdogTest, SendsNoKeepAlivesForAnotherProcess) {
  setenv("WATCHDOG_PID", std::to_string(getppid()).c_str(), 1);
  Watchdog other({{"the engine", [](std::function<void()> alive) { alive(); }}});
  EXPECT_EQ(Tended(other), "");
  setenv("WATCHDOG_PID", std::to_string(getpid()).c_str(), 1);
  Watchdog ours({{"the engine", [](std::function<void()> alive) { alive(); }}});
  EXPECT_EQ(Tended(ours), "WATCHDOG=1\nSTATUS=fine");
  unsetenv("WATCHDOG_PID");
}

TEST_F(WatchdogTest, DoesNothingWithoutASupervisor) {
  unsetenv("WATCHDOG_USEC");
  Watchdog watchdog({{"the engine", [this](std::function<void()>) { ++asked_; }}});
  EXPECT_EQ(Tended(watchdog), "");
  EXPECT_EQ(asked_, 0);
}

TEST_F(WatchdogTest, LateReplyAfterTheWatchdogIsHarmless) {
  std::function<void()> late;
  {
    Watchdog watchdog({{"the engine", [&](std::function<void()> alive) { late = std::move(alive); }}});
    Tended(watchdog);
  }
  late();
}

TEST_F(WatchdogTest, SignalsReadinessReloadAndStop) {
  NotifyStatus("loading");
  EXPECT_EQ(Heard(), "STATUS=loading");
  NotifyReady("fine");
  EXPECT_EQ(Heard(), "READY=1\nSTATUS=fine");
  NotifyReloading();
  EXPECT_EQ(Heard().find("RELOADING=1\nMONOTONIC_USEC="), 0U);
  NotifyStopping(std::chrono::seconds(34));
  EXPECT_EQ(Heard(), "STOPPING=1\nSTATUS=stopping\nEXTEND_TIMEOUT_USEC=34000000");
}

}  // namespace
}  // namespace ringside
