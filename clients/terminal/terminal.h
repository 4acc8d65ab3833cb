// The terminal: raw mode, size, output, and one place to wait for keys, signals and the network. One per process,
// because signal handlers and terminal modes are global. Restores the terminal when destroyed. THREAD: main.
#pragma once

#include <termios.h>

#include <string>
#include <string_view>

#include "clients/terminal/line_editor.h"

namespace ringside::client {

/// Why Wait returned; several reasons may hold at once.
struct Wake {
  std::string input;          // bytes typed
  bool end_of_input = false;  // the terminal is gone, or Ctrl-D outside raw mode
  bool interrupted = false;   // SIGINT
  bool terminated = false;    // SIGTERM, SIGHUP
  bool resized = false;
  bool readable = false;  // the other file descriptor
  bool timed_out = false;
};

class Terminal {
 public:
  Terminal();
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  /// True if standard input and output are terminals.
  static bool IsInteractive();
  /// True if the terminal supports escape sequences (TERM is neither empty nor "dumb").
  static bool UnderstandsEscapes();

  /// Raw mode: single keys without echo, Ctrl-C as a key, bracketed paste.
  void EnterRawMode();
  void LeaveRawMode();
  /// Returns the terminal to the shell until the process is continued.
  void Suspend();

  ScreenSize size() const;
  void Write(std::string_view bytes);
  /// Waits for input, a signal, `other` becoming readable (-1 = none) or the timeout (-1 = none).
  Wake Wait(int other, int timeout_ms);

 private:
  termios saved_{};
  bool raw_ = false;
};

/// SIGINT, SIGTERM, SIGHUP and SIGWINCH make fd() readable instead of ending the process. Also used by one-shot mode.
class SignalPipe {
 public:
  static SignalPipe& Instance();
  int fd() const { return fds_[0]; }
  /// Moves the received signals into `wake`.
  void Take(Wake& wake);

 private:
  SignalPipe();
  int fds_[2] = {-1, -1};
};

}  // namespace ringside::client
