#include "tests/durability/killed_process.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <thread>

#include "base/check.h"

namespace ringside {

std::string RunAndKill(const std::vector<std::string>& command, int64_t lines, uint32_t microseconds) {
  std::vector<char*> arguments;
  for (const std::string& argument : command) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  int ends[2];
  CHECK_EQ(pipe(ends), 0);
  const pid_t pid = fork();
  if (pid == 0) {
    dup2(ends[1], STDOUT_FILENO);
    close(ends[0]);
    close(ends[1]);
    execv(arguments[0], arguments.data());
    _exit(127);
  }
  close(ends[1]);
  std::promise<void> reached;
  std::thread killer([pid, microseconds, there = reached.get_future()] {
    there.wait();
    std::this_thread::sleep_for(std::chrono::microseconds(microseconds));
    kill(pid, SIGKILL);
  });
  std::string heard;
  int64_t left = lines;
  if (left == 0) reached.set_value();
  char buffer[65536];
  for (ssize_t n; (n = read(ends[0], buffer, sizeof(buffer))) > 0;) {
    heard.append(buffer, static_cast<size_t>(n));
    if (left <= 0) continue;
    left -= std::count(buffer, buffer + n, '\n');
    if (left <= 0) reached.set_value();
  }
  if (left > 0) reached.set_value();  // it has exited by itself
  close(ends[0]);
  killer.join();
  int how = 0;
  EXPECT_EQ(waitpid(pid, &how, 0), pid);
  EXPECT_TRUE(WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL) << command[0] << " ended by itself: " << how;
  return heard;
}

}  // namespace ringside
