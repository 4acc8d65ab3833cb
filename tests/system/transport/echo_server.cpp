// Echoes WebSocket messages through the transport with the server's settings, for conformance suites:
//   echo_server PATH [MAX_MESSAGE_BYTES] listens on a free port of 127.0.0.1, prints it and echoes messages sent to
//   PATH until its standard input ends. MAX_MESSAGE_BYTES overrides the message limit for cases about large messages.
#include <cstdio>
#include <cstdlib>

#include "ws/transport/server.h"

namespace ringside {
namespace {

int Main(const std::string& path, int64_t max_message_bytes) {
  TransportCounters counters;
  auto service = std::make_shared<Service>();
  service->sockets[path] = {
      .open =
          [](const HttpRequest&, std::shared_ptr<Outbox> outbox) {
            return SocketFace{.on_message = [outbox](std::string_view message) { outbox->Push(std::string(message)); },
                              .on_closed = nullptr,
                              .busy = nullptr};
          },
      .answers_in_kind = true};
  ServerOptions options;
  options.max_message_bytes = max_message_bytes;
  auto server = Server::Listen(options, service, counters);
  if (!server.ok()) {
    std::fprintf(stderr, "echo_server: %s\n", server.status().message().c_str());
    return 1;
  }
  std::printf("%d\n", (*server)->port());
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
  (*server)->Stop(std::chrono::milliseconds(0));
  return 0;
}

}  // namespace
}  // namespace ringside

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  return ringside::Main(argv[1], argc > 2 ? std::atoll(argv[2]) : ringside::limits::kMaxMessageBytes);
}
