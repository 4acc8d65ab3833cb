// Assembles an input from several lines: between triple quotes, or while lines end in a backslash. A multi-line paste
// is one input. THREAD: one.
#pragma once

#include <optional>
#include <string>

namespace ringside::client {

class MultiLine {
 public:
  /// Adds an accepted line. Returns the complete input, or nothing if more lines belong to it.
  std::optional<std::string> Push(const std::string& line);
  bool open() const { return open_ != Open::kNo; }
  /// Discards the incomplete input.
  void Clear();

 private:
  enum class Open { kNo, kQuotes, kBackslash };
  std::string Take();

  Open open_ = Open::kNo;
  std::string text_;
};

}  // namespace ringside::client
