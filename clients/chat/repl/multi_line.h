// Puts an input together from several lines: between triple quotes, or while lines end in a backslash. A pasted text of
// several lines is one input as it is. One thread.
#pragma once

#include <optional>
#include <string>

namespace ringside::client {

class MultiLine {
 public:
  /// The next line as it was accepted. Returns the whole input, or nothing if more lines belong to it.
  std::optional<std::string> Push(const std::string& line);
  bool open() const { return open_ != Open::kNo; }
  /// Forgets what was begun.
  void Clear();

 private:
  enum class Open { kNo, kQuotes, kBackslash };
  std::string Take();

  Open open_ = Open::kNo;
  std::string text_;
};

}  // namespace ringside::client
