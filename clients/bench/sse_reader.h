// Parses server-sent events from bytes split anywhere: returns the data of each event. One object per stream. THREAD:
// one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ringside::client {

class SseReader {
 public:
  /// The data of the events completed by `bytes`, lines joined by newlines. Skips comments and other fields.
  std::vector<std::string> Push(std::string_view bytes);

 private:
  void TakeLine(std::string_view line, std::vector<std::string>& events);

  std::string line_;  // the incomplete line
  std::string data_;
  bool has_data_ = false;
  bool after_return_ = false;  // the last byte was a carriage return: a following newline belongs to it
};

}  // namespace ringside::client
