// Parses the client's frames before Beast does, to refuse input that Beast would wait for or accept: messages whose
// announced length exceeds the limit, invalid close codes, and close reasons that are not UTF-8. Beast refuses all
// other malformed frames. One per connection.
// THREAD: the connection's strand.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace ringside {

class FrameWatch {
 public:
  explicit FrameWatch(int64_t max_message_bytes) : max_message_bytes_(static_cast<uint64_t>(max_message_bytes)) {}

  int64_t max_message_bytes() const { return static_cast<int64_t>(max_message_bytes_); }
  /// Consumes the next bytes of the stream, split anywhere. Returns the close code, or 0 while the input is valid; does
  /// nothing after it has returned a code.
  uint16_t Read(std::string_view bytes);

 private:
  size_t HeadBytes() const;
  uint16_t OnHead();
  uint16_t CheckClose() const;

  const uint64_t max_message_bytes_;
  std::array<uint8_t, 14> head_{};
  size_t head_bytes_ = 0;       // received bytes of the current frame's head
  uint64_t payload_left_ = 0;   // > 0 inside the payload of a frame
  uint64_t message_bytes_ = 0;  // announced by the current message's frames so far
  bool closing_ = false;        // the current frame is a close frame
  bool done_ = false;
  std::array<uint8_t, 4> key_{};  // mask of the close frame's payload
  std::string close_;             // masked payload of the close frame
};

}  // namespace ringside
