#include "tests/clients/fake_server.h"

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <boost/beast/websocket/rfc6455.hpp>
#include <boost/beast/websocket/stream.hpp>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

namespace ringside::client {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
namespace websocket = beast::websocket;
using tcp = asio::ip::tcp;
using boost::system::error_code;

class BeastFakeSocket final : public FakeSocket {
 public:
  explicit BeastFakeSocket(websocket::stream<tcp::socket&>& stream) : stream_(stream) { stream_.text(true); }

  nlohmann::json Read() override {
    beast::flat_buffer buffer;
    error_code error;
    stream_.read(buffer, error);
    if (error) return nullptr;
    const auto data = buffer.cdata();
    return nlohmann::json::parse(std::string_view(static_cast<const char*>(data.data()), data.size()), nullptr, false);
  }
  void Send(const nlohmann::json& message) override {
    error_code error;
    stream_.write(asio::buffer(message.dump()), error);
  }
  void Drop() override {
    error_code error;
    stream_.next_layer().shutdown(tcp::socket::shutdown_both, error);
    dropped_ = true;
  }
  void Close(uint16_t code) override {
    error_code error;
    stream_.close(websocket::close_reason(static_cast<websocket::close_code>(code)), error);
    dropped_ = true;
  }
  bool dropped() const { return dropped_; }

 private:
  websocket::stream<tcp::socket&>& stream_;
  bool dropped_ = false;
};

}  // namespace

struct FakeServer::Impl {
  explicit Impl(Script given) : script(std::move(given)), acceptor(context, {asio::ip::address_v4::loopback(), 0}) {
    accepting = std::thread([this] { Accept(); });
  }

  ~Impl() {
    stopping = true;
    error_code error;
    // Wakes the accept call; closing alone does not.
    tcp::socket wake(context);
    wake.connect(acceptor.local_endpoint(), error);
    accepting.join();
    {
      std::lock_guard lock(mutex);
      for (tcp::socket* socket : open) socket->shutdown(tcp::socket::shutdown_both, error);
    }
    for (std::thread& thread : connections) thread.join();
  }

  void Accept() {
    while (true) {
      auto socket = std::make_shared<tcp::socket>(context);
      error_code error;
      acceptor.accept(*socket, error);
      if (error || stopping) return;
      std::lock_guard lock(mutex);
      open.insert(socket.get());
      connections.emplace_back([this, socket] {
        Serve(*socket);
        std::lock_guard connection_lock(mutex);
        open.erase(socket.get());
      });
    }
  }

  void Serve(tcp::socket& socket) {
    beast::flat_buffer buffer;
    http::request<http::string_body> request;
    error_code error;
    http::read(socket, buffer, request, error);
    if (error) return;
    if (websocket::is_upgrade(request)) return ServeSocket(socket, request);
    FakeAnswer answer{404, "{}"};
    if (script.on_request) {
      answer = script.on_request({std::string(request.method_string()), std::string(request.target()), request.body(),
                                  std::string(request[http::field::authorization]),
                                  std::string(request[http::field::content_type])});
    }
    Answer(socket, answer);
  }

  void ServeSocket(tcp::socket& socket, const http::request<http::string_body>& request) {
    const int number = sockets++;
    const int refusal = script.refuse_upgrade ? script.refuse_upgrade(number) : 0;
    if (refusal != 0) return Answer(socket, {refusal, "{}"});
    websocket::stream<tcp::socket&> stream(socket);
    error_code error;
    stream.accept(request, error);
    if (error) return;
    BeastFakeSocket fake(stream);
    script.on_socket(fake, number);
    // After the script has ended, keeps the connection open until the client leaves.
    while (!fake.dropped() && !fake.Read().is_null()) {
    }
  }

  static void Answer(tcp::socket& socket, const FakeAnswer& answer) {
    http::response<http::string_body> response(static_cast<http::status>(answer.status), 11);
    response.body() = answer.body;
    response.keep_alive(false);
    response.prepare_payload();
    error_code error;
    http::write(socket, response, error);
    socket.shutdown(tcp::socket::shutdown_send, error);
  }

  Script script;
  asio::io_context context;
  tcp::acceptor acceptor;
  std::thread accepting;
  std::mutex mutex;
  std::set<tcp::socket*> open;
  std::vector<std::thread> connections;
  std::atomic<bool> stopping = false;
  std::atomic<int> sockets = 0;
};

FakeServer::FakeServer(Script script) : impl_(std::make_unique<Impl>(std::move(script))) {}
FakeServer::~FakeServer() = default;

ServerUrl FakeServer::url() const {
  ServerUrl url;
  url.port = impl_->acceptor.local_endpoint().port();
  return url;
}

}  // namespace ringside::client
