#include "clients/bench/sse_reader.h"

#include <utility>

namespace ringside::client {

std::vector<std::string> SseReader::Push(std::string_view bytes) {
  std::vector<std::string> events;
  while (!bytes.empty()) {
    if (std::exchange(after_return_, false) && bytes[0] == '\n') {
      bytes.remove_prefix(1);
      continue;
    }
    const size_t end = bytes.find_first_of("\r\n");
    line_ += bytes.substr(0, end);
    if (end == std::string_view::npos) break;
    after_return_ = bytes[end] == '\r';
    bytes.remove_prefix(end + 1);
    TakeLine(std::exchange(line_, {}), events);
  }
  return events;
}

void SseReader::TakeLine(std::string_view line, std::vector<std::string>& events) {
  constexpr std::string_view kData = "data:";
  if (line.empty()) {
    if (std::exchange(has_data_, false)) events.push_back(std::exchange(data_, {}));
    return;
  }
  if (!line.starts_with(kData)) return;
  line.remove_prefix(kData.size());
  if (line.starts_with(' ')) line.remove_prefix(1);
  if (has_data_) data_ += '\n';
  data_ += line;
  has_data_ = true;
}

}  // namespace ringside::client
