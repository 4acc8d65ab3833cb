// Reads along with the frames that a client sends, before Beast sees them, for what Beast waits for or lets pass:
// messages whose announced length is over the limit, close codes that nobody may send, and close reasons that are no
// UTF-8. Everything else about frames is Beast's to refuse. One per connection, on its strand.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace ringside {

class FrameWatch {
 public:
  explicit FrameWatch(int64_t max_message_bytes) : max_message_bytes_(static_cast<uint64_t>(max_message_bytes)) {}

  /// Takes the next bytes of the stream, however cut. Returns the code to close with, or 0 while nothing is wrong;
  /// after a code it watches no more.
  uint16_t Read(std::string_view bytes);

 private:
  size_t HeadBytes() const;
  uint16_t OnHead();
  uint16_t CheckClose() const;

  const uint64_t max_message_bytes_;
  std::array<uint8_t, 14> head_{};
  size_t head_bytes_ = 0;       // of the head that is being read
  uint64_t payload_left_ = 0;   // > 0: of the frame that is being read
  uint64_t message_bytes_ = 0;  // announced by the frames of the message so far
  bool closing_ = false;        // the frame that is being read is a close
  bool done_ = false;
  std::array<uint8_t, 4> key_{};  // masks the payload of the close
  std::string close_;             // that payload, as it came
};

}  // namespace ringside
