#include "session/pictures/decoder_process.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>

namespace ringside {
namespace {

void Close(int* descriptor) {
  if (*descriptor >= 0) close(*descriptor);
  *descriptor = -1;
}

/// A process's standard input, output and errors.
class FileActions {
 public:
  FileActions(int in, int out) {
    posix_spawn_file_actions_init(&actions_);
    posix_spawn_file_actions_adddup2(&actions_, in, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions_, out, STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&actions_, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  }
  ~FileActions() { posix_spawn_file_actions_destroy(&actions_); }
  FileActions(const FileActions&) = delete;
  FileActions& operator=(const FileActions&) = delete;
  const posix_spawn_file_actions_t* get() const { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_;
};

/// The signals of a worker thread are not the program's.
class Attributes {
 public:
  Attributes() {
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_init(&attributes_);
    posix_spawnattr_setsigmask(&attributes_, &none);
    posix_spawnattr_setsigdefault(&attributes_, &all);
    posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  ~Attributes() { posix_spawnattr_destroy(&attributes_); }
  Attributes(const Attributes&) = delete;
  Attributes& operator=(const Attributes&) = delete;
  const posix_spawnattr_t* get() const { return &attributes_; }

 private:
  posix_spawnattr_t attributes_;
};

}  // namespace

DecoderProcess::~DecoderProcess() {
  Close(&to_);
  Close(&from_);
  if (pid_ < 0) return;
  kill(pid_, SIGKILL);
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

Status DecoderProcess::Start(const std::string& program, const std::vector<std::string>& arguments) {
  // A socket: a write to a process that has ended is an error and no signal. Both ends close in other programs.
  int input[2] = {-1, -1}, output[2] = {-1, -1};
  const bool piped = socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, input) == 0 && pipe2(output, O_CLOEXEC) == 0;
  int started = -1;
  if (piped) {
    std::vector<char*> argv = {const_cast<char*>(program.c_str())};
    for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
    argv.push_back(nullptr);
    char* no_environment[] = {nullptr};
    const FileActions files(input[1], output[1]);
    started = posix_spawn(&pid_, program.c_str(), files.get(), Attributes().get(), argv.data(), no_environment);
  }
  Close(&input[1]);
  Close(&output[1]);
  to_ = input[0];
  from_ = output[0];
  if (started != 0) {
    pid_ = -1;
    return Unavailable("The server cannot start its image decoder now.");
  }
  for (const int descriptor : {to_, from_}) fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) | O_NONBLOCK);
  return Status::Ok();
}

bool DecoderProcess::WriteSome(std::string_view* input) {
  const ssize_t written = send(to_, input->data(), input->size(), MSG_NOSIGNAL);
  if (written < 0) return errno == EAGAIN || errno == EINTR;
  input->remove_prefix(static_cast<size_t>(written));
  return true;
}

DecoderProcess::Outcome DecoderProcess::Read(std::span<uint8_t> out, std::string_view* input,
                                             Clock::time_point deadline) {
  while (!out.empty()) {
    if (input->empty()) Close(&to_);  // the end of its input
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return Outcome::kLate;
    pollfd watched[] = {{from_, POLLIN, 0}, {to_, POLLOUT, 0}};  // poll ignores a descriptor of -1
    if (poll(watched, 2, static_cast<int>(std::min<int64_t>(left, 1000))) <= 0) continue;
    if (to_ >= 0 && watched[1].revents != 0 && !WriteSome(input)) *input = {};  // it reads no more
    if (watched[0].revents == 0) continue;
    const ssize_t got = read(from_, out.data(), out.size());
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) return Outcome::kEnded;
    if (got > 0) out = out.subspan(static_cast<size_t>(got));
  }
  return Outcome::kRead;
}

}  // namespace ringside
