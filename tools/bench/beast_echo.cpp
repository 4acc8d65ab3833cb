// The minimum cost of a WebSocket message on this machine: a bare single-threaded Beast server.
//   beast_echo PORT
// Echoes every message. One that begins with two numbers, "1000 2000 ...", requests the rest of the message a thousand
// times, each as a separate frame and write, 2,000 us after the previous one, as a server that streams an answer does.
// With 0 us there is no delay.
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/websocket/stream.hpp>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <optional>
#include <string_view>

namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
using tcp = asio::ip::tcp;

/// Removes a number and a space from the front of `text`, if present.
std::optional<int> TakeNumber(std::string_view& text) {
  int number = 0;
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || at == end || *at != ' ') return std::nullopt;
  text.remove_prefix(static_cast<size_t>(at + 1 - text.data()));
  return number;
}

asio::awaitable<void> Serve(tcp::socket socket) {
  try {
    beast::websocket::stream<beast::tcp_stream, false> stream(std::move(socket));
    stream.next_layer().socket().set_option(tcp::no_delay(true));
    stream.auto_fragment(false);
    stream.text(true);
    co_await stream.async_accept(asio::use_awaitable);
    beast::flat_buffer buffer;
    asio::steady_timer timer(stream.get_executor());
    for (;;) {
      const size_t size = co_await stream.async_read(buffer, asio::use_awaitable);
      std::string_view message(static_cast<const char*>(buffer.data().data()), size);
      const int times = TakeNumber(message).value_or(1);
      const std::chrono::microseconds pause(TakeNumber(message).value_or(0));
      timer.expires_after(pause);
      for (int i = 0; i < times; ++i) {
        if (pause.count() > 0) co_await timer.async_wait(asio::use_awaitable);
        timer.expires_at(timer.expiry() + pause);
        co_await stream.async_write(asio::buffer(message.data(), message.size()), asio::use_awaitable);
      }
      buffer.consume(buffer.size());
    }
  } catch (const std::exception&) {
    // The peer has disconnected.
  }
}

asio::awaitable<void> Listen(unsigned short port) {
  tcp::acceptor acceptor(co_await asio::this_coro::executor, {asio::ip::address_v4::loopback(), port});
  std::printf("%d\n", acceptor.local_endpoint().port());
  std::fflush(stdout);
  for (;;) {
    tcp::socket socket = co_await acceptor.async_accept(asio::use_awaitable);
    asio::co_spawn(acceptor.get_executor(), Serve(std::move(socket)), asio::detached);
  }
}

}  // namespace

int main(int argc, char** argv) {
  asio::io_context io(1);
  asio::co_spawn(io, Listen(static_cast<unsigned short>(argc > 1 ? std::atoi(argv[1]) : 0)), asio::detached);
  io.run();
}
