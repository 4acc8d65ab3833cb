#include "clients/bench/speaker.h"

#include <mutex>
#include <optional>
#include <utility>

#include "clients/bench/http_stream.h"
#include "clients/wire/session_link.h"
#include "clients/wire/transport/socket.h"

namespace ringside::client {
namespace {

/// A conversation over our own protocol.
class LinkSpeaker final : public Speaker {
 public:
  LinkSpeaker(IoRuntime& runtime, const ServerAccess& server, const SpeakerOptions& options, Listener listener)
      : options_(options),
        listener_(std::move(listener)),
        link_(runtime, {.url = server.url, .api_key = server.api_key}, [this](const LinkEvent& e) { OnEvent(e); }) {}

  void Say(const std::string& text) override {
    TurnRequest turn{.conversation = options_.conversation,
                     .input = {{"user", text}},
                     .fields = {{"max_output_tokens", std::to_string(options_.max_tokens)}},
                     .request_id = MakeRequestId()};
    if (options_.ignore_eos) turn.fields.emplace_back("ignore_eos", "true");
    link_.StartTurn(std::move(turn));
  }
  int reconnects() const override { return reconnects_; }

 private:
  void OnEvent(const LinkEvent& event) {
    if (event.kind == LinkEvent::Kind::kRetrying) ++reconnects_;
    if (event.kind == LinkEvent::Kind::kReasoning) listener_({.reasoning = event.text});
    if (event.kind == LinkEvent::Kind::kText) listener_({.text = event.text});
    if (!event.ends()) return;
    HeardEvent heard{.ends = true};
    if (event.kind == LinkEvent::Kind::kFinished && !event.server.failed()) {
      const TurnReport& report = event.server.report;
      heard.usage = TokenUsage{report.input_tokens, report.cached_tokens, report.output_tokens};
    } else {
      heard.error = !event.server.error.code.empty() ? event.server.error.code : "lost";
      heard.message = event.message.empty() ? event.server.error.message : event.message;
    }
    listener_(heard);
  }

  const SpeakerOptions options_;
  const Listener listener_;
  int reconnects_ = 0;
  SessionLink link_;
};

/// Common part of the other protocols: conversation state, and a lifetime that ends on the runtime's thread.
class Talk : public std::enable_shared_from_this<Talk> {
 public:
  Talk(IoRuntime& runtime, const ServerAccess& server, const SpeakerOptions& options, Speaker::Listener listener)
      : runtime_(runtime), server_(server), protocol_(options.protocol), listener_(std::move(listener)) {
    state_.model = options.model;
    state_.max_tokens = options.max_tokens;
    state_.ignore_eos = options.ignore_eos;
  }
  virtual ~Talk() = default;

  void Say(const std::string& text) {
    said_ = text;
    answer_.clear();
    usage_.reset();
    running_ = true;
    Send(EncodeTurn(protocol_, state_, text));
  }
  /// No listener call after it returns. THREAD: any.
  void Stop() {
    {
      std::lock_guard lock(mutex_);
      listener_ = nullptr;
    }
    runtime_.Post([self = shared_from_this()] { self->Close(); });
  }

 protected:
  virtual void Send(std::string request) = 0;
  virtual void Close() = 0;

  void Hear(HeardEvent heard) {
    if (!running_) return;
    answer_ += heard.text;
    if (!heard.response_id.empty()) state_.previous_response_id = heard.response_id;
    if (heard.usage) usage_ = heard.usage;
    if (heard.ends) {
      running_ = false;
      heard.usage = usage_;
      state_.history.push_back({"user", said_});
      state_.history.push_back({"assistant", answer_});
    }
    Speaker::Listener listener;
    {
      std::lock_guard lock(mutex_);
      listener = listener_;
    }
    if (listener) listener(heard);
  }
  void Lost(const std::string& reason) { Hear({.ends = true, .error = "lost", .message = reason}); }

  IoRuntime& runtime_;
  const ServerAccess server_;
  const Protocol protocol_;

 private:
  std::mutex mutex_;
  Speaker::Listener listener_;  // null after Stop
  TalkState state_;
  std::string said_, answer_;
  std::optional<TokenUsage> usage_;
  bool running_ = false;
};

/// One socket for all turns; a lost one is reopened for the next turn.
class SocketTalk final : public Talk {
 public:
  using Talk::Talk;

 private:
  void Send(std::string request) override {
    if (!socket_) Open();
    socket_->Send(std::move(request));
  }
  void Close() override {
    if (socket_) std::exchange(socket_, nullptr)->Close();
  }
  void Open() {
    const auto mine = [weak = weak_from_this()] { return std::static_pointer_cast<SocketTalk>(weak.lock()); };
    Socket::Handlers handlers;
    handlers.on_message = [mine](std::string_view message) {
      if (const auto self = mine()) self->Hear(ReadEvent(self->protocol_, message));
    };
    handlers.on_end = [mine](const SocketEnd& end) {
      const auto self = mine();
      if (!self) return;
      self->socket_.reset();
      if (end.http_status != 0) self->Hear(ReadRefusal(end.http_status, ""));
      self->Lost(end.reason);
    };
    socket_ = Socket::Open(runtime_, server_.url, server_.api_key, std::move(handlers));
  }

  std::shared_ptr<Socket> socket_;
};

/// One request per turn.
class StreamTalk final : public Talk {
 public:
  using Talk::Talk;

 private:
  void Send(std::string request) override {
    Close();  // the previous turn's stream, which has delivered its last event
    const auto mine = [weak = weak_from_this()] { return std::static_pointer_cast<StreamTalk>(weak.lock()); };
    HttpStream::Handlers handlers;
    handlers.on_event = [mine](const std::string& data) {
      if (const auto self = mine()) self->Hear(ReadEvent(self->protocol_, data));
    };
    handlers.on_end = [mine](const HttpStreamEnd& end) {
      const auto self = mine();
      if (!self) return;
      self->stream_.reset();
      if (end.status >= 400) self->Hear(ReadRefusal(end.status, end.body));
      self->Lost(end.reason.empty() ? "the answer ended without its last event" : end.reason);
    };
    stream_ =
        HttpStream::Post(runtime_, server_.url, server_.api_key, TurnPath(protocol_), std::move(request), handlers);
  }
  void Close() override {
    if (stream_) std::exchange(stream_, nullptr)->Close();
  }

  std::shared_ptr<HttpStream> stream_;
};

class TalkSpeaker final : public Speaker {
 public:
  explicit TalkSpeaker(std::shared_ptr<Talk> talk) : talk_(std::move(talk)) {}
  ~TalkSpeaker() override { talk_->Stop(); }
  void Say(const std::string& text) override { talk_->Say(text); }

 private:
  const std::shared_ptr<Talk> talk_;
};

}  // namespace

std::unique_ptr<Speaker> MakeSpeaker(IoRuntime& runtime, const ServerAccess& server, const SpeakerOptions& options,
                                     Speaker::Listener listener) {
  if (options.protocol == Protocol::kRingside) {
    return std::make_unique<LinkSpeaker>(runtime, server, options, std::move(listener));
  }
  if (options.protocol == Protocol::kResponsesWs) {
    return std::make_unique<TalkSpeaker>(std::make_shared<SocketTalk>(runtime, server, options, std::move(listener)));
  }
  return std::make_unique<TalkSpeaker>(std::make_shared<StreamTalk>(runtime, server, options, std::move(listener)));
}

}  // namespace ringside::client
