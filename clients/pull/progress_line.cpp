#include "clients/pull/progress_line.h"

#include <unistd.h>

#include <cstdio>

#include "clients/models/model_list.h"
#include "clients/terminal/sanitiser.h"
#include "clients/terminal/terminal.h"

namespace ringside::client {
namespace {

constexpr auto kShowEvery = std::chrono::milliseconds(200);

std::string TimeLeft(double seconds) {
  char text[32];
  const auto whole = static_cast<int64_t>(seconds + 0.5);
  if (whole >= 3600) {
    std::snprintf(text, sizeof text, "%lld:%02lld:%02lld", static_cast<long long>(whole / 3600),
                  static_cast<long long>(whole / 60 % 60), static_cast<long long>(whole % 60));
  } else {
    std::snprintf(text, sizeof text, "%lld:%02lld", static_cast<long long>(whole / 60),
                  static_cast<long long>(whole % 60));
  }
  return text;
}

}  // namespace

ProgressLine::ProgressLine(bool quiet)
    : quiet_(quiet), terminal_(::isatty(STDERR_FILENO) != 0 && Terminal::UnderstandsEscapes()) {}

ProgressLine::~ProgressLine() {
  if (open_) std::fputc('\n', stderr);
}

void ProgressLine::Start(const std::string& name, uint64_t done, std::optional<uint64_t> total) {
  name_ = Sanitise(name);
  begin_ = done_ = done;
  total_ = total;
  started_ = std::chrono::steady_clock::now();
  shown_ = {};
  if (quiet_) return;
  if (terminal_) return Show();
  std::fprintf(stderr, "%s%s%s\n", name_.c_str(), total ? (": " + DescribeBytes(*total)).c_str() : "",
               done > 0 ? (", of which " + DescribeBytes(done) + " are here").c_str() : "");
}

void ProgressLine::Advance(uint64_t done, std::optional<uint64_t> total) {
  if (done < done_) begin_ = done;  // begun again
  done_ = done;
  total_ = total;
  if (std::chrono::steady_clock::now() - shown_ >= kShowEvery) Show();
}

void ProgressLine::Show() {
  if (quiet_ || !terminal_) return;
  shown_ = std::chrono::steady_clock::now();
  const double seconds = std::chrono::duration<double>(shown_ - started_).count();
  const double rate = seconds > 0.5 ? static_cast<double>(done_ - begin_) / seconds : 0;
  std::string line = name_ + "  " + DescribeBytes(done_);
  if (total_ && *total_ > 0) {
    line += " of " + DescribeBytes(*total_) + "  " + std::to_string(done_ * 100 / *total_) + " %";
  }
  if (rate > 0) line += "  " + DescribeBytes(static_cast<uint64_t>(rate)) + "/s";
  if (rate > 0 && total_ && *total_ > done_)
    line += "  " + TimeLeft(static_cast<double>(*total_ - done_) / rate) + " left";
  std::fprintf(stderr, "\r\x1b[K%s", line.c_str());
  std::fflush(stderr);
  open_ = true;
}

void ProgressLine::Finish() {
  Show();
  if (open_) std::fputc('\n', stderr);
  open_ = false;
}

void ProgressLine::Note(const std::string& text) {
  if (quiet_) return;
  std::fprintf(stderr, "%s%s\n", open_ ? "\r\x1b[K" : "", Sanitise(text).c_str());
  open_ = false;
}

}  // namespace ringside::client
