// The progress of a download: one line that is rewritten on a terminal, and one line per file elsewhere, on standard
// error. THREAD: one.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace ringside::client {

class ProgressLine {
 public:
  explicit ProgressLine(bool quiet);
  /// Ends an unfinished line.
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  /// Starts a file. `done`: bytes that are on this machine already.
  void Start(const std::string& name, uint64_t done, std::optional<uint64_t> total);
  void Advance(uint64_t done, std::optional<uint64_t> total);
  void Finish();
  /// A remark between two updates: "retrying in 2 s".
  void Note(const std::string& text);

 private:
  void Show();

  const bool quiet_, terminal_;
  bool open_ = false;  // the line lacks its end
  std::string name_;
  uint64_t begin_ = 0, done_ = 0;
  std::optional<uint64_t> total_;
  std::chrono::steady_clock::time_point started_, shown_;
};

}  // namespace ringside::client
