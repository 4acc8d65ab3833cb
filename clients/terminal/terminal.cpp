#include "clients/terminal/terminal.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>

namespace ringside::client {
namespace {

constexpr std::string_view kPasteOn = "\x1b[?2004h";
constexpr std::string_view kPasteOff = "\x1b[?2004l";
constexpr size_t kReadBytes = 4096;

int signal_write_fd = -1;

extern "C" void OnSignal(int number) {
  const int kept_errno = errno;
  const auto byte = static_cast<unsigned char>(number);
  // If the pipe is full, the reader is awake already.
  if (::write(signal_write_fd, &byte, 1) < 0) errno = kept_errno;
  errno = kept_errno;
}

}  // namespace

SignalPipe& SignalPipe::Instance() {
  static SignalPipe pipe;
  return pipe;
}

SignalPipe::SignalPipe() {
  if (::pipe2(fds_, O_CLOEXEC | O_NONBLOCK) != 0) return;
  signal_write_fd = fds_[1];
  struct sigaction action {};
  action.sa_handler = OnSignal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGWINCH}) ::sigaction(number, &action, nullptr);
}

void SignalPipe::Take(Wake& wake) {
  unsigned char byte = 0;
  while (::read(fds_[0], &byte, 1) == 1) {
    if (byte == SIGINT) wake.interrupted = true;
    if (byte == SIGTERM || byte == SIGHUP) wake.terminated = true;
    if (byte == SIGWINCH) wake.resized = true;
  }
}

Terminal::Terminal() { SignalPipe::Instance(); }

Terminal::~Terminal() { LeaveRawMode(); }

bool Terminal::IsInteractive() { return ::isatty(STDIN_FILENO) != 0 && ::isatty(STDOUT_FILENO) != 0; }

bool Terminal::UnderstandsEscapes() {
  const char* term = std::getenv("TERM");
  return term != nullptr && term[0] != '\0' && std::string_view(term) != "dumb";
}

void Terminal::EnterRawMode() {
  if (raw_ || ::tcgetattr(STDIN_FILENO, &saved_) != 0) return;
  termios mode = saved_;
  mode.c_iflag &= ~static_cast<tcflag_t>(BRKINT | ICRNL | INLCR | IGNCR | INPCK | ISTRIP | IXON);
  mode.c_lflag &= ~static_cast<tcflag_t>(ECHO | ICANON | IEXTEN | ISIG);
  mode.c_cc[VMIN] = 1;
  mode.c_cc[VTIME] = 0;
  if (::tcsetattr(STDIN_FILENO, TCSADRAIN, &mode) != 0) return;
  raw_ = true;
  Write(kPasteOn);
}

void Terminal::LeaveRawMode() {
  if (!raw_) return;
  Write(kPasteOff);
  ::tcsetattr(STDIN_FILENO, TCSADRAIN, &saved_);
  raw_ = false;
}

void Terminal::Suspend() {
  LeaveRawMode();
  ::kill(0, SIGTSTP);
  EnterRawMode();
}

ScreenSize Terminal::size() const {
  winsize window{};
  ScreenSize size;
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col > 0 && window.ws_row > 0) {
    size = {window.ws_col, window.ws_row};
  }
  return size;
}

void Terminal::Write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t wrote = ::write(STDOUT_FILENO, bytes.data(), bytes.size());
    if (wrote > 0) {
      bytes.remove_prefix(static_cast<size_t>(wrote));
    } else if (wrote < 0 && errno == EAGAIN) {
      pollfd ready{STDOUT_FILENO, POLLOUT, 0};
      ::poll(&ready, 1, -1);
    } else if (wrote < 0 && errno != EINTR) {
      return;  // the terminal is gone; Wait reports it
    }
  }
}

Wake Terminal::Wait(int other, int timeout_ms) {
  pollfd fds[] = {{STDIN_FILENO, POLLIN, 0}, {SignalPipe::Instance().fd(), POLLIN, 0}, {other, POLLIN, 0}};
  Wake wake;
  const int ready = ::poll(fds, 3, timeout_ms);
  if (ready == 0) wake.timed_out = true;
  SignalPipe::Instance().Take(wake);
  if (ready <= 0) return wake;
  wake.readable = (fds[2].revents & POLLIN) != 0;
  if ((fds[0].revents & (POLLIN | POLLHUP | POLLERR | POLLNVAL)) == 0) return wake;
  char buffer[kReadBytes];
  const ssize_t got = ::read(STDIN_FILENO, buffer, sizeof buffer);
  if (got > 0) wake.input.assign(buffer, static_cast<size_t>(got));
  if (got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN)) wake.end_of_input = true;
  return wake;
}

}  // namespace ringside::client
