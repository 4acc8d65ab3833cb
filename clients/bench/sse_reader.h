// Server-sent events, read from bytes in pieces of any size: the data of each event. One object per stream, one thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ringside::client {

class SseReader {
 public:
  /// The data of the events that `bytes` complete, lines joined by newlines. Comments and other fields are skipped.
  std::vector<std::string> Push(std::string_view bytes);

 private:
  void TakeLine(std::string_view line, std::vector<std::string>& events);

  std::string line_;  // begun
  std::string data_;
  bool has_data_ = false;
  bool after_return_ = false;  // the last byte was a carriage return: a newline behind it belongs to it
};

}  // namespace ringside::client
