#include "ws/transport/socket/frame_watch.h"

#include <algorithm>
#include <boost/locale/utf.hpp>
#include <cstddef>
#include <utility>

namespace ringside {
namespace {

constexpr uint8_t kFinal = 0x80, kOpcode = 0x0f, kMasked = 0x80, kLength = 0x7f;
constexpr uint8_t kClose = 8;
constexpr uint64_t kMaxControlBytes = 125;
// Largest code for applications; Beast rejects the unassigned ranges below.
constexpr int kLastCloseCode = 4999;
constexpr uint16_t kProtocolError = 1002, kNotUtf8 = 1007, kTooBig = 1009;

bool IsUtf8(std::string_view text) {
  using Utf8 = boost::locale::utf::utf_traits<char>;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at != end) {
    const auto character = Utf8::decode(at, end);
    if (character == boost::locale::utf::illegal || character == boost::locale::utf::incomplete) return false;
  }
  return true;
}

}  // namespace

uint16_t FrameWatch::Read(std::string_view bytes) {
  while (!bytes.empty() && !done_) {
    uint16_t code = 0;
    if (payload_left_ == 0) {
      head_[head_bytes_++] = static_cast<uint8_t>(bytes.front());
      bytes.remove_prefix(1);
      if (head_bytes_ == HeadBytes()) code = OnHead();
    } else {
      const size_t taken = static_cast<size_t>(std::min<uint64_t>(payload_left_, bytes.size()));
      if (closing_) close_ += bytes.substr(0, taken);
      payload_left_ -= taken;
      bytes.remove_prefix(taken);
      if (payload_left_ == 0 && closing_) code = CheckClose();
    }
    if (code != 0) done_ = true;
    if (code != 0) return code;
  }
  return 0;
}

/// Length of the head, once its second byte is known.
size_t FrameWatch::HeadBytes() const {
  if (head_bytes_ < 2) return 2;
  const uint8_t length = head_[1] & kLength;
  return size_t{2} + (length == 127 ? 8 : length == 126 ? 2 : 0) + ((head_[1] & kMasked) != 0 ? 4 : 0);
}

uint16_t FrameWatch::OnHead() {
  const uint8_t opcode = head_[0] & kOpcode, length = head_[1] & kLength;
  payload_left_ = length;
  if (length >= 126) {
    payload_left_ = 0;
    for (size_t i = 2; i < (length == 126 ? 4u : 10u); ++i) payload_left_ = payload_left_ << 8 | head_[i];
  }
  const size_t head_bytes = std::exchange(head_bytes_, 0);
  close_.clear();
  if (opcode >= kClose) {  // a control frame may come between the frames of a message
    closing_ = opcode == kClose;
    // Beast refuses a longer or unmasked close frame and closes the connection.
    done_ = payload_left_ > kMaxControlBytes || (head_[1] & kMasked) == 0;
    if (closing_ && !done_) std::copy_n(head_.begin() + static_cast<std::ptrdiff_t>(head_bytes) - 4, 4, key_.begin());
    return 0;
  }
  closing_ = false;
  if (payload_left_ > max_message_bytes_ - message_bytes_) return kTooBig;
  message_bytes_ = (head_[0] & kFinal) != 0 ? 0 : message_bytes_ + payload_left_;
  return 0;
}

uint16_t FrameWatch::CheckClose() const {
  std::string payload = close_;
  for (size_t i = 0; i < payload.size(); ++i) payload[i] = static_cast<char>(payload[i] ^ key_[i % 4]);
  if (payload.size() < 2) return 0;
  const int code = static_cast<uint8_t>(payload[0]) << 8 | static_cast<uint8_t>(payload[1]);
  if (code > kLastCloseCode) return kProtocolError;
  return IsUtf8(std::string_view(payload).substr(2)) ? 0 : kNotUtf8;
}

}  // namespace ringside
