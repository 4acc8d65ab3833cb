// A server on a free port with a few routes and an echo socket, shared by the transport tests.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <future>
#include <mutex>
#include <new>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/ws/transport/transport_client.h"
#include "ws/metrics.h"
#include "ws/transport/server.h"

namespace ringside::testing {

class TransportTest : public ::testing::Test {
 protected:
  /// The echo handlers' observations.
  struct Seen {
    std::mutex mutex;
    std::condition_variable changed;
    int opened = 0, closed = 0;
    std::vector<std::string> principals, queries;
    std::vector<std::shared_ptr<Outbox>> outboxes;
  };

  /// Blocks handlers until a test opens it.
  class Gate {
   public:
    void Pass() {
      ++waiting_;
      opened_.wait();
      --waiting_;
    }
    void Open() { open_.set_value(); }
    /// Waits until `count` handlers are blocked.
    void WaitFor(int count) const {
      while (waiting_ < count) std::this_thread::yield();
    }

   private:
    std::promise<void> open_;
    std::shared_future<void> opened_{open_.get_future()};
    std::atomic<int> waiting_{0};
  };

  Gate gate_;
  ServerOptions options_;
  TransportCounters counters_;
  Metrics metrics_{counters_};
  Seen seen_;
  std::atomic<bool> busy_{false};
  std::unique_ptr<Server> server_;

  ~TransportTest() override { server_.reset(); }

  SocketFace OpenEcho(const HttpRequest& request, std::shared_ptr<Outbox> outbox) {
    {
      std::lock_guard lock(seen_.mutex);
      ++seen_.opened;
      seen_.principals.push_back(request.principal);
      seen_.queries.emplace_back(request.Query("q"));
      seen_.outboxes.push_back(outbox);
    }
    seen_.changed.notify_all();
    return {.on_message =
                [this, outbox](std::string_view message) {
                  if (message == "throw") throw std::runtime_error("a face failed");
                  if (message == "block") gate_.Pass();
                  if (message == "close 4409") return outbox->Close(4409, "taken over");
                  outbox->Push(std::string(message));
                },
            .on_closed =
                [this] {
                  {
                    std::lock_guard lock(seen_.mutex);
                    ++seen_.closed;
                  }
                  seen_.changed.notify_all();
                },
            .busy = [this] { return busy_.load(); }};
  }

  std::shared_ptr<Service> MakeService() {
    auto service = std::make_shared<Service>();
    service->open_paths.insert("/healthz");
    const auto say = [](std::string text) {
      return [text](const HttpRequest&, const Router::Parameters&) {
        HttpResponse response;
        response.body = text;
        return response;
      };
    };
    service->router.Add("GET", "/healthz", say("alive"));
    service->router.AnswerAtOnce("/healthz");
    service->router.Add("GET", "/hello", say("hello"));
    service->router.Add("POST", "/echo/{id}", [](const HttpRequest& request, const Router::Parameters& values) {
      HttpResponse response;
      response.body = values[0] + "|" + std::string(request.Query("q")) + "|" + request.body;
      return response;
    });
    service->router.Add("GET", "/who", [](const HttpRequest& request, const Router::Parameters&) {
      HttpResponse response;
      response.body = request.principal;
      return response;
    });
    service->router.Add("GET", "/throw", [](const HttpRequest&, const Router::Parameters&) -> HttpResponse {
      throw std::runtime_error("a handler failed");
    });
    service->router.Add("GET", "/out-of-memory",
                        [](const HttpRequest&, const Router::Parameters&) -> HttpResponse { throw std::bad_alloc(); });
    service->router.Add("GET", "/block", [this](const HttpRequest&, const Router::Parameters&) {
      gate_.Pass();
      return HttpResponse();
    });
    service->sockets["/ws"] = {
        .open = [this](const HttpRequest& request,
                       std::shared_ptr<Outbox> outbox) { return OpenEcho(request, std::move(outbox)); },
        .admit =
            [](const HttpRequest& request) {
              if (request.Query("q") == "throw") throw std::runtime_error("admitting failed");
              return request.Query("q") == "none" ? NotFound("There is none.") : Status::Ok();
            }};
    return service;
  }

  void Start(std::shared_ptr<Service> service = nullptr) {
    auto server = Server::Listen(options_, service ? service : MakeService(), counters_);
    ASSERT_TRUE(server.ok()) << server.status().ToString();
    server_ = std::move(server.value());
  }
  uint16_t port() const { return server_->port(); }

  /// Waits until `count` sockets have been notified of their close.
  bool WaitClosed(int count) {
    std::unique_lock lock(seen_.mutex);
    return seen_.changed.wait_for(lock, std::chrono::seconds(60), [&] { return seen_.closed >= count; });
  }
  std::shared_ptr<Outbox> WaitOutbox(size_t index = 0) {
    std::unique_lock lock(seen_.mutex);
    seen_.changed.wait_for(lock, std::chrono::seconds(60), [&] { return seen_.outboxes.size() > index; });
    return seen_.outboxes.at(index);
  }
  /// The server still answers new clients, over HTTP and over a WebSocket.
  void ExpectAlive(const std::string& headers = "") {
    WireClient http(port());
    const auto answer = http.Get("/hello", headers);
    ASSERT_TRUE(answer.has_value());
    EXPECT_EQ(answer->body, "hello");
    WireClient socket(port());
    const auto upgrade = socket.Upgrade("/ws", headers);
    ASSERT_TRUE(upgrade.has_value());
    EXPECT_EQ(upgrade->status, 101);
    socket.SendText("still there?");
    EXPECT_EQ(socket.ReadText(), "still there?");
  }
  /// The value of a metric's sample line with this prefix; "" if there is none.
  std::string Sample(const std::string& name) {
    const std::string text = "\n" + metrics_.Scrape();
    const size_t at = text.find("\n" + name + " ");
    if (at == std::string::npos) return "";
    const size_t start = at + name.size() + 2;
    return text.substr(start, text.find('\n', start) - start);
  }
};

/// `error.code` of an error body; "" if it has another shape.
inline std::string ErrorCode(const std::string& body) {
  const auto json = nlohmann::json::parse(body, nullptr, false);
  if (!json.is_object() || !json.contains("error") || !json["error"].is_object()) return "";
  const auto& error = json["error"];
  if (!error.contains("message") || !error.contains("type") || !error.contains("param")) return "";
  return error.value("code", "");
}

}  // namespace ringside::testing
