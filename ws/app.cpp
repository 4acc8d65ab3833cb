#include "ws/app.h"

#include <cstdio>
#include <future>
#include <limits>
#include <optional>

#include "base/log.h"
#include "engine/model.h"
#include "session/chat_template.h"
#include "session/session_table.h"
#include "ws/app_lock.h"
#include "ws/app_progress.h"
#include "ws/app_turns.h"
#include "ws/conversations.h"
#include "ws/health.h"
#include "ws/metrics.h"
#include "ws/models.h"
#include "ws/responses.h"
#include "ws/server.h"

namespace ringside {
namespace {

constexpr std::chrono::milliseconds kWatchInterval{250};
constexpr std::chrono::milliseconds kCancelPatience{5'000};
constexpr std::chrono::milliseconds kClosePatience{5'000};
// Never the session layer's, which counts up from a random number of 52 bits.
constexpr uint64_t kWarmUpId = std::numeric_limits<uint64_t>::max();

class WarmUpSink final : public TokenSink {
 public:
  void OnStart(const CacheReport&) override {}
  void OnTokens(const TokenDelta&) override {}
  void OnEnd(const TurnEnd& end) override {
    ended_.set_value(end.reason == FinishReason::kError ? end.error : Status::Ok());
  }
  std::future<Status> ended() { return ended_.get_future(); }

 private:
  std::promise<Status> ended_;
};

/// One real turn through the engine: ready means that the next one works, too.
Status WarmUp(Engine& engine, const TokenizerData& data) {
  const auto sink = std::make_shared<WarmUpSink>();
  TurnRequest request;
  request.turn = kWarmUpId;
  request.timeline = kWarmUpId;
  request.tokens = {data.bos.value_or(data.eos.value_or(0))};
  request.message_starts = {0};
  request.window = {.pinned = 1, .memory_len = engine.options().memory_len, .eviction = Eviction::kTurn};
  request.sampling.temperature = 0;
  request.max_tokens = 2;
  request.sink = sink;
  std::future<Status> ended = sink->ended();
  RETURN_IF_ERROR(engine.Submit(std::move(request)));
  const Status status = ended.get();
  engine.Close(kWarmUpId);
  return status;
}

HttpResponse MetricsAnswer(Metrics& metrics) {
  HttpResponse response;
  response.content_type = "text/plain; version=0.0.4; charset=utf-8";
  response.body = metrics.Scrape();
  return response;
}

/// Everything that serves. Members are in the order of their making; what they point to stands above them.
class Serving {
 public:
  explicit Serving(const ServerConfig& config) : config_(config) {}
  ~Serving();

  Status Start();
  /// True until the engine has failed for good.
  bool healthy() const { return engine_->healthy(); }
  /// Refuses new turns, lets the running ones end, closes the sockets.
  void Drain();
  std::string url() const { return server_->url(); }

 private:
  Status Listen();
  Status LoadModel();
  Status StartEngine();
  void OpenSessions();
  void Publish();
  std::shared_ptr<Service> MakeService();

  const ServerConfig config_;
  Metrics metrics_;
  Health health_{"starting"};
  std::atomic<bool> draining_{false};
  std::optional<StoreLock> lock_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::optional<ChatTemplate> chat_;
  std::string model_name_;
  TurnRegistry turns_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<SessionTable> sessions_;
  std::unique_ptr<Server> server_;
};

Serving::~Serving() {
  draining_ = true;
  metrics_.SetSource(nullptr);
  if (server_) server_->Stop(std::chrono::milliseconds(0));
  // A turn that ends tells its session, and the table may then run what waited for it: both are still there.
  if (engine_) {
    turns_.CancelAll(*engine_);
    turns_.WaitUntilNone(kCancelPatience);
  }
  sessions_.reset();
  engine_.reset();
  server_.reset();  // after the last push into an outbox
}

Status Serving::Start() {
  RETURN_IF_ERROR(Listen());
  RETURN_IF_ERROR(LoadModel());
  RETURN_IF_ERROR(StartEngine());
  OpenSessions();
  Publish();
  return Status::Ok();
}

std::shared_ptr<Service> Serving::MakeService() {
  auto service = std::make_shared<Service>();
  AddHealthRoutes(*service, health_);
  service->router.Add("GET", "/metrics",
                      [this](const HttpRequest&, const Router::Parameters&) { return MetricsAnswer(metrics_); });
  return service;
}

Status Serving::Listen() {
  if (!config_.store_path.empty()) {
    ASSIGN_OR_RETURN(lock_, StoreLock::Acquire(config_.store_path));
  }
  ServerOptions options;
  options.host = config_.host;
  options.port = static_cast<uint16_t>(config_.port);
  options.access = {config_.api_keys, config_.allowed_origins, config_.host};
  options.max_connections = config_.max_connections;
  options.max_connection_age = std::chrono::seconds(config_.max_connection_age_s);
  std::shared_ptr<Service> service = MakeService();
  service->starting = "The model is being loaded.";
  ASSIGN_OR_RETURN(server_, Server::Listen(options, std::move(service), metrics_));
  LogInfo("port {} is open; the model comes next", server_->port());
  if (!IsLoopbackHost(config_.host) && config_.api_keys.empty()) {
    LogWarning("{} is reachable from outside and no key is set: everyone may ask", config_.host);
  }
  return Status::Ok();
}

Status Serving::LoadModel() {
  ASSIGN_OR_RETURN(backend_, MakeCpuBackend(config_.cpu));
  LogInfo("backend: {}", backend_->Describe());
  {
    const ProgressReport progress("loading " + config_.model);
    ASSIGN_OR_RETURN(model_, Model::Load(config_.model, *backend_));
  }
  const ModelSpec& spec = model_->spec();
  LogInfo("model: {} ({}), {} layers, {:.1f} MiB of weights, trained to {} tokens", spec.name, spec.architecture,
          spec.layers, static_cast<double>(model_->weight_bytes()) / (1 << 20), spec.trained_context);
  const TokenizerData& data = model_->tokenizer_data();
  ASSIGN_OR_RETURN(tokenizer_, MakeTokenizer(data));
  ChatTemplate::Facts facts;
  if (data.bos) facts.bos = tokenizer_->TokenName(*data.bos);
  if (data.eos) facts.eos = tokenizer_->TokenName(*data.eos);
  auto chat = config_.chat_template.empty() ? ChatTemplate::Recognise(model_->chat_template(), facts)
                                            : ChatTemplate::Named(config_.chat_template, facts);
  if (!chat.ok()) {
    return InvalidArgument("--chat-template: " + chat.status().message());
  }
  chat_ = std::move(chat.value());
  LogInfo("chat template: {}", chat_->name());
  if (!chat_->caveat().empty()) LogWarning("chat template: {}", chat_->caveat());
  model_name_ = !config_.served_model_name.empty() ? config_.served_model_name
                : !spec.name.empty()               ? spec.name
                                                   : "ringside";
  metrics_.SetModel(model_name_);
  return Status::Ok();
}

Status Serving::StartEngine() {
  ASSIGN_OR_RETURN(const EngineOptions options, ResolveEngineOptions(config_, model_->spec()));
  {
    const ProgressReport progress("making the engine");
    ASSIGN_OR_RETURN(engine_, Engine::Start(*model_, *tokenizer_, options));
  }
  LogInfo("engine: {} slots, {} tokens in view and {} pinned, {} tokens a conversation", options.slots,
          options.memory_len, options.pinned_max, options.session_len);
  const ProgressReport progress("warming up");
  if (Status status = WarmUp(*engine_, model_->tokenizer_data()); !status.ok()) {
    return Unavailable("the first turn failed: " + status.message());
  }
  return Status::Ok();
}

void Serving::OpenSessions() {
  const EngineOptions& engine = engine_->options();
  SessionTableOptions options;
  options.model_name = model_name_;
  options.session_len = engine.session_len;
  options.memory_len = engine.memory_len;
  options.pinned_max = engine.pinned_max;
  options.eviction = config_.eviction;
  options.temperature = config_.temperature.value_or(options.temperature);
  options.top_p = config_.top_p.value_or(options.top_p);
  options.max_output_tokens = config_.max_output_tokens.value_or(options.max_output_tokens);
  options.end_of_turn = model_->tokenizer_data().end_of_turn;
  EngineDoor door;
  door.submit = [this](TurnRequest request) {
    if (draining_) return Unavailable("The server is stopping.");
    request.sink = MakeMeasuringSink(std::move(request.sink), metrics_, SystemClock::Instance());
    return turns_.Submit(*engine_, std::move(request));
  };
  door.cancel = [this](TurnId turn) { engine_->Cancel(turn); };
  door.close = [this](TimelineId timeline) { engine_->Close(timeline); };
  door.fork = [this](TimelineId from, TimelineId to) { engine_->Fork(from, to); };
  sessions_ = std::make_unique<SessionTable>(std::move(options), *tokenizer_, *chat_, std::move(door));
}

void Serving::Publish() {
  std::shared_ptr<Service> service = MakeService();
  AddModelRoutes(service->router, {model_name_, static_cast<int64_t>(SystemClock::Instance().WallSeconds()),
                                   engine_->options().session_len});
  RegisterConversationRoutes(service->router, *sessions_);
  RegisterResponseRoutes(service->router, *sessions_);
  service->sockets["/v1/responses"] = [this](const std::string& principal, std::shared_ptr<Outbox> outbox) {
    const auto face = std::make_shared<ResponsesSocket>(*sessions_, principal, std::move(outbox));
    return SocketFace{.on_message = [face](std::string_view message) { face->OnMessage(message); },
                      .on_closed = [face] { face->OnClosed(); },
                      .busy = [face] { return face->busy(); }};
  };
  metrics_.SetSource([this] { return MetricsSnapshot{engine_->stats(), sessions_->conversations()}; });
  server_->Publish(std::move(service));
  health_.SetReady([this] { return engine_->healthy(); });
}

void Serving::Drain() {
  const int64_t timeout_ms = config_.shutdown_timeout_s * 1000;
  health_.SetNotReady("stopping");
  draining_ = true;
  server_->Drain(fmt::format(R"({{"type":"ringside:server.draining","deadline_ms":{}}})", timeout_ms));
  LogInfo("stopping: {} turns may end within {} s", turns_.size(), config_.shutdown_timeout_s);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
  while (engine_->healthy() && std::chrono::steady_clock::now() < deadline) {
    if (turns_.WaitUntilNone(kWatchInterval)) break;
  }
  if (const size_t left = turns_.size(); left > 0) {
    // Cancelled answers still get their last event, in front of the close.
    LogWarning("{} turns did not end in time and are cancelled", left);
    turns_.CancelAll(*engine_);
    turns_.WaitUntilNone(kCancelPatience);
  }
  server_->Stop(kClosePatience);
}

int Fail(const Status& status) {
  // For a person at a terminal and for the log alike: the log goes to standard error.
  LogError("{}", status.message());
  return status.code() == StatusCode::kBusy              ? kExitStoreInUse
         : status.code() == StatusCode::kInvalidArgument ? kExitBadConfig
                                                         : kExitFailed;
}

}  // namespace

int RunServer(const ServerConfig& config, SignalWatcher& signals) {
  Serving serving(config);
  if (Status status = serving.Start(); !status.ok()) return Fail(status);
  signals.Defer();
  std::printf("ringside-server listening on %s\n", serving.url().c_str());
  std::fflush(stdout);
  while (!signals.Wait(kWatchInterval)) {
    if (!serving.healthy()) {
      LogError("the engine has failed: ending, so that a service manager can start anew");
      serving.Drain();
      return kExitFailed;
    }
  }
  serving.Drain();
  LogInfo("stopped");
  return kExitOk;
}

}  // namespace ringside
