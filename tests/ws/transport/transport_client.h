// A client that can misbehave: a plain TCP socket and hand-made WebSocket frames, so that a test can send data that no
// library would. Blocking, with a generous timeout so that a broken server fails the test instead of hanging it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ringside::testing {

struct WireFrame {
  int opcode = 0;  // 1 text, 2 binary, 8 close, 9 ping, 10 pong
  std::string payload;
  /// The code of a close frame; 1005 if it has none.
  int close_code() const;
};

struct WireAnswer {
  int status = 0;
  std::string head, body;
  /// Value of a header, by its lower-case name; "" if absent.
  std::string Header(const std::string& name) const;
};

class WireClient {
 public:
  explicit WireClient(uint16_t port, int receive_buffer_bytes = 0);
  ~WireClient();
  WireClient(const WireClient&) = delete;
  WireClient& operator=(const WireClient&) = delete;

  /// False if the peer has closed.
  bool Send(std::string_view bytes);
  /// Sends as much as possible without waiting; returns how much.
  size_t SendWithoutWaiting(std::string_view bytes);
  /// Whether data can be read now, or the peer has closed.
  bool HasInput() const;
  /// One HTTP answer; nothing if the connection ends before it is complete.
  std::optional<WireAnswer> ReadAnswer(bool head_only = false);
  /// The next data, at least a byte; nothing if the connection ends.
  std::optional<std::string> ReadSome();
  /// Everything until the peer closes.
  std::string ReadToEnd();
  /// True if the peer closes (or resets) before it sends anything more.
  bool PeerCloses();

  /// GET with these extra header lines, keep-alive.
  std::optional<WireAnswer> Get(const std::string& path, const std::string& headers = "");
  /// Sends the upgrade and returns the answer.
  std::optional<WireAnswer> Upgrade(const std::string& path, const std::string& headers = "");

  bool SendFrame(int opcode, std::string_view payload, bool fin = true, bool mask = true);
  bool SendText(std::string_view text) { return SendFrame(1, text); }
  /// The next frame of any kind; nothing if the connection ends.
  std::optional<WireFrame> ReadFrame();
  /// The next text frame's payload, answering pings meanwhile; nothing if another frame arrives.
  std::optional<std::string> ReadText();
  /// Reads up to a close frame; returns its code, or 1006 if the connection ends without one.
  int ReadClose();

 private:
  bool Fill();
  uint16_t port_;
  int socket_ = -1;
  std::string buffer_;
};

/// The bytes of one client frame.
std::string MakeFrame(int opcode, std::string_view payload, bool fin = true, bool mask = true);

}  // namespace ringside::testing
