// One run of a program between two pipes, with a deadline. One thread.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace ringside {

class DecoderProcess {
 public:
  using Clock = std::chrono::steady_clock;

  DecoderProcess() = default;
  /// Kills the process if it still runs, and reaps it.
  ~DecoderProcess();
  DecoderProcess(const DecoderProcess&) = delete;
  DecoderProcess& operator=(const DecoderProcess&) = delete;

  /// Starts the program with an empty environment. ERRORS: kUnavailable.
  Status Start(const std::string& program, const std::vector<std::string>& arguments);
  enum class Outcome { kRead, kEnded, kLate };
  /// Reads exactly `out.size()` bytes of its output, while it writes `input`'s rest to it. kEnded: there are fewer.
  Outcome Read(std::span<uint8_t> out, std::string_view* input, Clock::time_point deadline);

 private:
  bool WriteSome(std::string_view* input);

  pid_t pid_ = -1;
  int to_ = -1, from_ = -1;  // pipes' ends, not blocking
};

}  // namespace ringside
