#include "tests/ws/transport/transport_client.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <utility>

#include "base/check.h"

namespace ringside::testing {
namespace {

constexpr int kTimeLimitMs = 60'000;

}  // namespace

int WireFrame::close_code() const {
  if (payload.size() < 2) return 1005;
  return static_cast<uint8_t>(payload[0]) * 256 + static_cast<uint8_t>(payload[1]);
}

std::string WireAnswer::Header(const std::string& name) const {
  std::string lower = head;
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const size_t at = lower.find("\r\n" + name + ": ");
  if (at == std::string::npos) return "";
  const size_t start = at + name.size() + 4;
  return head.substr(start, head.find("\r\n", start) - start);
}

WireClient::WireClient(uint16_t port, int receive_buffer_bytes) : port_(port) {
  socket_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  CHECK_GE(socket_, 0);
  if (receive_buffer_bytes > 0) {
    setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_buffer_bytes, sizeof(receive_buffer_bytes));
  }
  const int on = 1;
  setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  CHECK_EQ(connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
}

WireClient::~WireClient() { close(socket_); }

bool WireClient::Send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

size_t WireClient::SendWithoutWaiting(std::string_view bytes) {
  const ssize_t sent = send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  return sent > 0 ? static_cast<size_t>(sent) : 0;
}

bool WireClient::Fill() {
  pollfd entry{socket_, POLLIN, 0};
  if (poll(&entry, 1, kTimeLimitMs) != 1) return false;
  char bytes[16384];
  const ssize_t got = recv(socket_, bytes, sizeof(bytes), 0);
  if (got <= 0) return false;
  buffer_.append(bytes, static_cast<size_t>(got));
  return true;
}

bool WireClient::HasInput() const {
  pollfd input{.fd = socket_, .events = POLLIN, .revents = 0};
  return !buffer_.empty() || poll(&input, 1, 0) > 0;
}

std::optional<WireAnswer> WireClient::ReadAnswer(bool head_only) {
  size_t end = 0;
  while ((end = buffer_.find("\r\n\r\n")) == std::string::npos) {
    if (!Fill()) return std::nullopt;
  }
  WireAnswer answer;
  answer.head = buffer_.substr(0, end + 2);
  buffer_.erase(0, end + 4);
  if (answer.head.size() > 12) answer.status = std::atoi(answer.head.c_str() + 9);
  const std::string length = answer.Header("content-length");
  const size_t bytes = head_only || length.empty() ? 0 : std::stoul(length);
  while (buffer_.size() < bytes) {
    if (!Fill()) return std::nullopt;
  }
  answer.body = buffer_.substr(0, bytes);
  buffer_.erase(0, bytes);
  return answer;
}

std::optional<std::string> WireClient::ReadSome() {
  if (buffer_.empty() && !Fill()) return std::nullopt;
  return std::exchange(buffer_, {});
}

std::string WireClient::ReadToEnd() {
  while (Fill()) {
  }
  std::string all;
  all.swap(buffer_);
  return all;
}

bool WireClient::PeerCloses() {
  if (!buffer_.empty()) return false;
  pollfd entry{socket_, POLLIN, 0};
  if (poll(&entry, 1, kTimeLimitMs) != 1) return false;
  char byte = 0;
  return recv(socket_, &byte, 1, 0) <= 0;
}

std::optional<WireAnswer> WireClient::Get(const std::string& path, const std::string& headers) {
  if (!Send("GET " + path + " HTTP/1.1\r\nHost: 127.0.0.1:" + std::to_string(port_) + "\r\n" + headers + "\r\n")) {
    return std::nullopt;
  }
  return ReadAnswer();
}

std::optional<WireAnswer> WireClient::Upgrade(const std::string& path, const std::string& headers) {
  return Get(path,
             "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
             "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n" +
                 headers);
}

std::string MakeFrame(int opcode, std::string_view payload, bool fin, bool mask) {
  std::string frame;
  frame += static_cast<char>((fin ? 0x80 : 0) | opcode);
  const int mask_bit = mask ? 0x80 : 0;
  if (payload.size() < 126) {
    frame += static_cast<char>(mask_bit | static_cast<int>(payload.size()));
  } else if (payload.size() < 65536) {
    frame += static_cast<char>(mask_bit | 126);
    frame += static_cast<char>(payload.size() >> 8);
    frame += static_cast<char>(payload.size() & 255);
  } else {
    frame += static_cast<char>(mask_bit | 127);
    for (int shift = 56; shift >= 0; shift -= 8) {
      frame += static_cast<char>((static_cast<uint64_t>(payload.size()) >> shift) & 255);
    }
  }
  if (!mask) return frame.append(payload);
  const char key[4] = {0x12, 0x34, 0x56, 0x78};
  frame.append(key, 4);
  for (size_t i = 0; i < payload.size(); ++i) frame += static_cast<char>(payload[i] ^ key[i % 4]);
  return frame;
}

bool WireClient::SendFrame(int opcode, std::string_view payload, bool fin, bool mask) {
  return Send(MakeFrame(opcode, payload, fin, mask));
}

std::optional<WireFrame> WireClient::ReadFrame() {
  const auto need = [this](size_t bytes) {
    while (buffer_.size() < bytes) {
      if (!Fill()) return false;
    }
    return true;
  };
  if (!need(2)) return std::nullopt;
  WireFrame frame;
  frame.opcode = buffer_[0] & 15;
  uint64_t length = static_cast<uint8_t>(buffer_[1]) & 127;
  size_t head = 2;
  if (length >= 126) {
    const size_t bytes = length == 126 ? 2 : 8;
    if (!need(head + bytes)) return std::nullopt;
    length = 0;
    for (size_t i = 0; i < bytes; ++i) length = length * 256 + static_cast<uint8_t>(buffer_[head + i]);
    head += bytes;
  }
  if (!need(head + length)) return std::nullopt;
  frame.payload = buffer_.substr(head, length);
  buffer_.erase(0, head + length);
  return frame;
}

std::optional<std::string> WireClient::ReadText() {
  while (auto frame = ReadFrame()) {
    if (frame->opcode == 9) {
      SendFrame(10, frame->payload);
    } else if (frame->opcode == 1) {
      return frame->payload;
    } else if (frame->opcode != 10) {
      return std::nullopt;
    }
  }
  return std::nullopt;
}

int WireClient::ReadClose() {
  while (const auto frame = ReadFrame()) {
    if (frame->opcode == 8) return frame->close_code();
  }
  return 1006;
}

}  // namespace ringside::testing
