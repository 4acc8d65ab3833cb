#include "ws/app/app.h"

#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <future>
#include <mutex>
#include <optional>
#include <thread>

#include "base/log.h"
#include "engine/fleet/engine_fleet.h"
#include "kernels/ranks/processes.h"
#include "session/chat/templates/chat_template.h"
#include "session/table/session_table.h"
#include "ws/app/app_access.h"
#include "ws/app/app_deadline.h"
#include "ws/app/app_engine.h"
#include "ws/app/app_follower.h"
#include "ws/app/app_models.h"
#include "ws/app/app_progress.h"
#include "ws/app/app_readiness.h"
#include "ws/app/app_storage.h"
#include "ws/app/app_texts.h"
#include "ws/app/app_watchdog.h"
#include "ws/app/app_window.h"
#include "ws/backups.h"
#include "ws/chat/chat_routes.h"
#include "ws/config/machine.h"
#include "ws/config/model_id.h"
#include "ws/engines.h"
#include "ws/fields/ignored_log.h"
#include "ws/health.h"
#include "ws/metrics.h"
#include "ws/openai/conversations.h"
#include "ws/openai/models.h"
#include "ws/openai/owners.h"
#include "ws/openai/responses/responses.h"
#include "ws/openai/shares.h"
#include "ws/page/page.h"
#include "ws/realtime/client_secrets.h"
#include "ws/realtime/realtime.h"
#include "ws/transport/server.h"

namespace ringside {
namespace {

constexpr std::chrono::milliseconds kWatchInterval{250};
constexpr std::chrono::milliseconds kCancelPatience{5'000};
// Upper bound of the time reserved for shutdown steps after the turns: a third of the grace, at most this.
constexpr std::chrono::milliseconds kWindUpTime{10'000};
// Minimum for each of those steps.
constexpr std::chrono::milliseconds kLeastPatience{500};
// Time after the grace in which the shutdown must complete by itself.
constexpr std::chrono::milliseconds kStopMargin{2'000};
constexpr int kWatchesPerTend = 4;
constexpr int64_t kMetricsConnections = 64;
constexpr int64_t kMaxTokens = 32768;  // default limit of a prompt and of an answer

HttpResponse MetricsAnswer(Metrics& metrics) {
  HttpResponse response;
  response.content_type = "text/plain; version=0.0.4; charset=utf-8";
  response.body = metrics.Scrape();
  return response;
}

/// All serving components. Members are in construction order; each is declared after the ones it points to.
class Serving {
 public:
  Serving(const ServerConfig& config, Processes& processes) : config_(config), processes_(processes) {}
  ~Serving();

  Status Start();
  /// True until all engines, or the devices below them, have failed permanently.
  bool healthy() const { return engines_->healthy() && std::ranges::any_of(copies_, &ModelCopy::devices_ok); }
  /// Fails readiness checks, and continues to serve for --shutdown-grace.
  void AwaitGrace();
  /// Refuses new turns, waits for running ones and closes the sockets.
  void Drain();
  std::string url() const { return server_->url(); }
  /// The threads that serving depends on.
  std::vector<Watchdog::Part> WatchedParts();
  /// One line for `systemctl status`.
  std::string Describe() const;
  /// True if nothing can be recorded any more and a restart is the recovery.
  bool storage_failed() const { return !storage_->healthy() && !storage_->lost(); }
  /// True if the store is gone: the conversations exist only in memory, so the process stays alive until they are
  /// exported.
  bool storage_lost() const { return storage_->lost(); }
  /// Periodic work, about once a second.
  void Tick();
  /// Reloads keys and certificate.
  void Reload();
  bool device_failed() const { return !std::ranges::all_of(copies_, &ModelCopy::devices_ok); }
  /// Exit status if Start fails for a reason other than the device.
  int exit_code() const { return exit_code_; }

 private:
  Status Listen();
  Status LoadModel();
  Status StartEngine();
  Status OpenSessions();
  /// Any of the copies.
  const Model& model() const { return *copies_.front().model; }
  /// Reads everything stored, as `verify` does, and logs the result.
  void CheckStored(const std::stop_token& stop);
  void LogStored() const;
  /// Reason why turns would not be answered; "" = they would. Does not block.
  std::string Trouble() const;
  std::string EngineTrouble() const;
  void Publish();
  Status ServeMetrics();
  void SaveCaches(std::chrono::steady_clock::duration time);
  std::shared_ptr<Service> MakeService();
  void AddMetricsRoute(Service& service);

  const ServerConfig config_;
  Processes& processes_;
  TransportCounters transport_;
  Metrics metrics_{transport_, static_cast<size_t>(config_.data_parallel_size)};
  Health health_{"starting"};
  mutable std::mutex storage_check_mutex_;
  Status storage_check_;  // from the last Tick: a readiness probe does not wait for the disk
  int exit_code_ = kExitFailed;
  AppAccess access_;
  std::unique_ptr<Storage> storage_;
  std::unique_ptr<Backups> backups_;
  std::vector<ModelCopy> copies_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::optional<ChatTemplate> chat_;
  std::string model_name_;
  SamplingParams sampling_;  // defaults of requests
  std::unique_ptr<EngineFleet> engines_;
  std::unique_ptr<AppEngine> turns_;
  std::unique_ptr<SessionTable> sessions_;
  std::unique_ptr<Server> server_;
  TransportCounters metrics_transport_;  // the metrics port's own traffic is not reported
  std::unique_ptr<Server> metrics_server_;
  std::atomic<bool> stored_checked_{false};
  std::jthread checking_;  // verifies the store in the background
};

Serving::~Serving() {
  checking_ = {};
  if (turns_) turns_->RefuseTurns();
  metrics_.SetSource(nullptr);
  if (server_) server_->Stop(std::chrono::milliseconds(0));
  // A finished turn notifies its session, and the table may then start queued work: both still exist here.
  if (sessions_) {
    sessions_->InterruptTurns();
    turns_->WaitUntilNone(kCancelPatience);
    sessions_->Flush();  // delivers pending notifications while their sessions exist
  }
  sessions_.reset();
  engines_.reset();
  metrics_server_.reset();
  server_.reset();  // after the last push into an outbox
}

Status Serving::Start() {
  RETURN_IF_ERROR(CheckMemory({.host_cache_mb = config_.host_cache_mb}, MachineMemoryBytes()));
  RETURN_IF_ERROR(Listen());
  RETURN_IF_ERROR(LoadModel());
  RETURN_IF_ERROR(StartEngine());
  RETURN_IF_ERROR(OpenSessions());
  Publish();
  return Status::Ok();
}

std::shared_ptr<Service> Serving::MakeService() {
  auto service = std::make_shared<Service>();
  AddHealthRoutes(*service, health_);
  if (!config_.no_ui) AddPageRoutes(*service, config_.ui_dir);
  if (!config_.metrics_port) AddMetricsRoute(*service);
  return service;
}

void Serving::AddMetricsRoute(Service& service) {
  service.router.AnswerAtOnce("/metrics");
  service.router.Add(
      "GET", "/metrics", [this](const HttpRequest&, const Router::Parameters&) { return MetricsAnswer(metrics_); },
      Scopes::Metrics());
}

Status Serving::ServeMetrics() {
  if (!config_.metrics_port) return Status::Ok();
  auto service = std::make_shared<Service>();
  AddHealthRoutes(*service, health_);
  AddMetricsRoute(*service);
  ServerOptions options;
  options.host = config_.metrics_host;
  options.port = static_cast<uint16_t>(*config_.metrics_port);
  options.access = {.host = config_.metrics_host, .allowed_hosts = config_.allowed_hosts};
  options.io_threads = options.worker_threads = 1;
  options.max_connections = kMetricsConnections;
  ASSIGN_OR_RETURN(metrics_server_, Server::Listen(options, std::move(service), metrics_transport_));
  LogInfo("metrics: {}/metrics", metrics_server_->url());
  return Status::Ok();
}

Status Serving::Listen() {
  {
    const ProgressReport progress("opening the store");
    auto storage = Storage::Open(config_);
    if (!storage.ok()) exit_code_ = StorageExitCode(storage.status());
    if (!storage.ok()) return storage.status();
    storage_ = std::move(*storage);
  }
  if (!config_.backup_path.empty()) {
    ASSIGN_OR_RETURN(backups_, Backups::Open(config_, *storage_->journal()));
  }
  ServerOptions options;
  options.host = config_.host;
  options.port = static_cast<uint16_t>(config_.port);
  options.max_connections = ResolveConnections(config_.max_connections, RaiseFileLimit());
  if (config_.max_connections.value_or(0) > options.max_connections) {
    LogWarning("--max-connections: {} do not fit the limit of open files (ulimit -n, LimitNOFILE); {} do",
               *config_.max_connections, options.max_connections);
  }
  RETURN_IF_ERROR(access_.Open(config_));
  access_.Apply(config_, options);
  options.io_threads = static_cast<int>(config_.io_threads);
  options.worker_threads = static_cast<int>(config_.worker_threads);
  options.max_connection_age = std::chrono::seconds(config_.max_connection_age_s);
  options.idle_timeout = std::chrono::seconds(config_.idle_timeout_s);
  std::shared_ptr<Service> service = MakeService();
  service->starting = "The model is being loaded.";
  ASSIGN_OR_RETURN(server_, Server::Listen(options, std::move(service), transport_));
  LogInfo("port {} is open; loading the model", server_->port());
  return ServeMetrics();
}

Status Serving::LoadModel() {
  RETURN_IF_ERROR(LoadModels(config_, processes_, &copies_));
  const ModelSpec& spec = model().spec();
  LogInfo("model: {} ({}), {} layers, {:.1f} MiB of weights, trained to {} tokens", spec.name, spec.architecture,
          spec.layers, static_cast<double>(model().weight_bytes()) / (1 << 20), spec.trained_context);
  const bool dummy = config_.load_format == LoadFormat::kDummy;
  if (dummy) LogWarning("the weights are random: answers are meaningless");
  ASSIGN_OR_RETURN(tokenizer_, LoadTokenizer(config_, model()));
  ASSIGN_OR_RETURN(chat_, LoadTemplate(config_, model(), *tokenizer_));
  model_name_ = config_.served_model_name.empty() ? ModelId(config_.model, spec.name) : config_.served_model_name;
  metrics_.SetModel(model_name_);
  ASSIGN_OR_RETURN(sampling_, LoadSampling(config_));
  return Status::Ok();
}

Status Serving::StartEngine() {
  ASSIGN_OR_RETURN(EngineOptions options, ResolveEngineOptions(config_, model().spec()));
  if (!config_.cuda) RETURN_IF_ERROR(FitMachine(config_, model(), processes_, &options));
  {
    const ProgressReport progress("making the engine");
    std::vector<std::unique_ptr<Engine>> engines;
    for (const ModelCopy& copy : copies_) {
      EngineStorage storage = storage_->ForEngine(*copy.model);
      if (!engines.empty()) storage.pinned_bytes = 0;  // the first engine's pinned memory is shared by all
      auto engine = Engine::Start(*copy.model, *tokenizer_, options, storage);
      if (engine.status().code() == StatusCode::kOverloaded) return InvalidArgument(engine.status().message());
      ASSIGN_OR_RETURN(engines.emplace_back(), std::move(engine));
      options.memory_len = engines.back()->options().memory_len;  // later engines get no more
    }
    engines_ = std::make_unique<EngineFleet>(std::move(engines));
  }
  constexpr double kMib = 1 << 20;
  const EngineOptions& made = engines_->options();
  LogInfo(
      "engine: {} slots of up to {:.1f} MiB, {:.1f} MiB for all; {} tokens in view and {} pinned, {} tokens a "
      "conversation",
      made.slots, static_cast<double>(engines_->engine(0).slot_bytes()) / kMib,
      static_cast<double>(made.kv_bytes) / kMib, WindowOf(*engines_), made.pinned_max, made.session_len);
  LogInfo("{}", DescribeWindow(config_, model().spec(), *engines_));
  LogInfo("engine: {:.1f} MiB of weights", static_cast<double>(model().weight_bytes()) / kMib);
  if (engines_->size() > 1) LogInfo("engines: {} of these", engines_->size());
  turns_ = std::make_unique<AppEngine>(*engines_, metrics_);
  const ProgressReport progress("warming up");
  for (size_t i = 0; i < engines_->size(); ++i) {
    if (Status status = WarmUp(engines_->engine(i), model().tokenizer_data()); !status.ok()) {
      return Unavailable("the first turn failed: " + status.message());
    }
  }
  return Status::Ok();
}

Status Serving::OpenSessions() {
  const EngineOptions& engine = engines_->options();
  SessionTableOptions options;
  options.model_name = model_name_;
  options.embedding_size = model().shape().hidden;
  ASSIGN_OR_RETURN(options.adapters, AdapterNames(config_, model_name_));
  options.session_len = engine.session_len;
  options.memory_len = WindowOf(*engines_);
  options.pinned_max = engine.pinned_max;
  if (const ModelSpec& spec = model().spec(); spec.encoder_layers > 0) {
    options.encoder = {*model().tokenizer_data().eos, static_cast<TokenId>(spec.answer_start)};
  }
  options.eviction = config_.eviction;
  options.sampling = sampling_;
  const int64_t longest = std::max(kMaxTokens, options.memory_len + options.pinned_max);
  options.max_output_tokens = config_.max_output_tokens.value_or(-1);
  options.max_output_tokens_limit = config_.max_output_tokens_limit.value_or(longest);
  options.max_input_tokens = config_.max_input_tokens.value_or(longest);
  options.ends_repetition = !config_.no_repetition_guard;
  options.turn_timeout_s = config_.turn_timeout_s;
  options.aliases = config_.model_aliases;
  options.strict_requests = config_.strict_requests;
  options.on_ignored = LogIgnoredFields();
  options.end_of_turn = model().tokenizer_data().end_of_turn;
  options.text_begin = model().tokenizer_data().text_begin;
  options.durability = config_.durability == StoreDurability::kTurn ? Durability::kTurn : Durability::kToken;
  options.session_ttl_s = config_.session_ttl_s;
  options.max_turns_per_owner = config_.max_turns_per_owner;
  options.max_sessions_per_owner = config_.max_sessions_per_owner;
  options.max_bytes_per_owner = config_.max_text_mb_per_owner << 20;
  options.max_chains_per_owner = config_.max_chains_per_owner;
  options.max_stored_bytes_per_owner = config_.max_stored_mb_per_owner << 20;
  options.max_tokens_per_owner = config_.max_tokens_per_owner;
  options.limits_of = [this](const std::string& owner, const OwnerLimits& usual) {
    return access_.LimitsOf(owner, usual);
  };
  options.max_detached_tokens = config_.max_detached_tokens;
  ASSIGN_OR_RETURN(options.export_key, OpenExportKey(config_));
  options.accept_foreign_imports = config_.accept_foreign_imports;
  sessions_ = std::make_unique<SessionTable>(std::move(options), *tokenizer_, *chat_, *turns_, storage_->journal());
  if (Status opened = sessions_->Open(); !opened.ok()) {
    exit_code_ = StorageExitCode(opened);
    return opened;
  }
  if (config_.verify) {
    const ProgressReport progress("checking what is stored");
    CheckStored({});
  } else if (storage_->journal() != nullptr) {
    LogStored();
  }
  storage_->Forget([this](const std::string& key) { return sessions_->Knows(key); });
  return Status::Ok();
}

void Serving::CheckStored(const std::stop_token& stop) {
  if (const Status checked = sessions_->CheckStored(stop); checked.code() == StatusCode::kCancelled) {
    return;
  } else if (!checked.ok()) {
    return LogError("store: verification did not complete: {}", checked.message());
  }
  stored_checked_ = true;
  LogStored();
}

void Serving::LogStored() const {
  const SessionTableStats stored = sessions_->stats();
  const int64_t damaged = storage_->journal()->stats().damaged_sessions;
  const std::string line =
      fmt::format("store: {} conversations and {} chains, {} of them damaged{}", stored.conversations, stored.chains,
                  damaged, stored_checked_ ? "; all were checked" : " as far as is known; the others are checked next");
  damaged > 0 ? LogError("{}", line) : LogInfo("{}", line);
}

std::vector<Watchdog::Part> Serving::WatchedParts() {
  std::vector<Watchdog::Part> parts;
  for (size_t i = 0; i < engines_->size(); ++i) {
    parts.push_back({engines_->size() == 1 ? "the engine" : fmt::format("engine {}", i),
                     [this, i](std::function<void()> alive) { engines_->engine(i).Ping(std::move(alive)); }});
  }
  parts.push_back({"the io threads", [this](std::function<void()> alive) { server_->Ping(std::move(alive)); }});
  parts.push_back({"the workers", [this](const std::function<void()>& alive) {
                     if (server_->workers().stalled_ms < kLongestStallMs) alive();
                   }});
  return parts;
}

std::string Serving::Describe() const {
  const EngineStats engine = engines_->stats();
  return fmt::format("{} at {}: {} turns running, {} waiting", model_name_, url(), engine.turns_running,
                     engine.turns_waiting);
}

void Serving::Reload() {
  access_.Reload();
  server_->CloseRevoked();
}

void Serving::Tick() {
  access_.Watch();
  server_->CloseRevoked();
  engines_->Tick();
  sessions_->Sweep();
  Status check = storage_->Check();
  {
    std::lock_guard lock(storage_check_mutex_);
    storage_check_ = std::move(check);
  }
  if (storage_->journal() == nullptr) return;
  const SessionTableStats stored = sessions_->stats();
  health_.SetStored({.conversations = stored.conversations,
                     .chains = stored.chains,
                     .damaged = storage_->journal()->stats().damaged_sessions,
                     .checked = stored_checked_});
}

void Serving::Publish() {
  std::shared_ptr<Service> service = MakeService();
  AddModelRoutes(service->router, ServedModelOf(sessions_->options(), SystemClock::Instance().WallSeconds()));
  RegisterClientSecretRoutes(service->router, access_.tickets(), sessions_->options());
  RegisterConversationRoutes(service->router, *sessions_);
  AddBackupRoute(service->router, backups_.get());
  AddEngineRoutes(service->router, *engines_);
  AddOwnerRoutes(service->router, *sessions_);
  AddShareRoutes(*service, *sessions_);
  const RetryAfter retry_after_ms = [this](const std::string& principal) {
    // An owner out of tokens waits for them, whatever the queue's length.
    const int64_t tokens_ms = sessions_->TokensWaitMs({principal, 0});
    return tokens_ms > 0
               ? tokens_ms
               : metrics_.RetryAfterMs(engines_->stats().turns_waiting, SystemClock::Instance().MonotonicNs());
  };
  RegisterResponseRoutes(service->router, *sessions_, retry_after_ms);
  const RunOnWorker run = [this](const std::string& client, size_t bytes, std::function<void()> call) {
    return server_->RunOnWorker(client, bytes, std::move(call));
  };
  service->sockets["/v1/responses"] = ResponsesRoute(*sessions_, retry_after_ms, run);
  service->sockets["/v1/realtime"] = RealtimeRoute(*sessions_, run);
  RegisterChatRoutes(service->router, {.table = *sessions_, .retry_after_ms = retry_after_ms, .run_on_worker = run},
                     FactsOf(config_, model(), *tokenizer_, engines_->options().slots));
  metrics_.SetSource([this] {
    return MetricsSnapshot{engines_->each(),
                           storage_->tiers().stats(),
                           storage_->journal() != nullptr ? storage_->journal()->stats() : JournalStats{},
                           sessions_->stats(),
                           server_->workers(),
                           ReadProcessFigures(),
                           health_.NotReadyReason().empty(),
                           backups_ != nullptr ? backups_->last_made_at() : 0};
  });
  for (const std::string& route : service->router.Describe()) LogDebug("route: {}", route);
  for (const auto& [path, route] : service->sockets) LogDebug("route: socket {}", path);
  server_->Publish(std::move(service));
  Tick();
  if (storage_->journal() != nullptr && !stored_checked_) {
    checking_ = std::jthread([this](const std::stop_token& stop) {
      pthread_setname_np(pthread_self(), "check");
      constexpr int kLeastUrgent = 19;
      setpriority(PRIO_PROCESS, 0, kLeastUrgent);  // this thread only: turns have priority
      CheckStored(stop);
    });
  }
  health_.SetReady([this] { return Trouble(); });
}

std::string Serving::EngineTrouble() const {
  if (healthy()) return "";
  Status why;
  for (const ModelCopy& copy : copies_) {
    if (why.ok()) why = copy.device_status();
  }
  for (size_t i = 0; i < engines_->size() && why.ok(); ++i) why = engines_->engine(i).status();
  return fmt::format("{}: {}", engines_->size() == 1 ? "the engine has failed" : "all engines have failed",
                     why.message());
}

std::string Serving::Trouble() const {
  if (std::string trouble = EngineTrouble(); !trouble.empty()) return trouble;
  if (storage_->lost()) return "the store was deleted, moved or replaced";
  if (!storage_->healthy()) return "the disk has failed";
  if (storage_->journal() != nullptr) {
    std::lock_guard lock(storage_check_mutex_);
    if (std::string trouble = StoreTrouble(storage_check_, storage_->journal()->stats()); !trouble.empty())
      return trouble;
  }
  return WorkersTrouble(server_->workers());
}

void Serving::AwaitGrace() {
  health_.SetNotReady("stopping");
  server_->CloseAfterAnswers();
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(config_.shutdown_grace_s);
  while (healthy() && storage_->healthy() && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(kWatchInterval);
  }
}

void Serving::Drain() {
  const int64_t timeout_ms = config_.shutdown_timeout_s * 1000;
  const std::string trouble = Trouble();
  health_.SetNotReady(trouble.empty() ? "stopping" : "stopping: " + trouble);
  checking_.request_stop();
  turns_->RefuseTurns();
  server_->Drain(fmt::format(R"({{"type":"ringside:server.draining","deadline_ms":{}}})", timeout_ms));
  LogInfo("stopping: {} turns may end within {} s", turns_->turns(), config_.shutdown_timeout_s);
  if (storage_->journal() != nullptr) engines_->SaveAll(nullptr);  // turns that run meanwhile save their caches again
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
  const auto turns_end = deadline - std::min(std::chrono::milliseconds(timeout_ms / 3), kWindUpTime);
  // A share of the remaining grace.
  const auto patience = [deadline](int share) {
    const auto left = (deadline - std::chrono::steady_clock::now()) / share;
    return std::max(std::chrono::duration_cast<std::chrono::milliseconds>(left), kLeastPatience);
  };
  while (engines_->healthy() && std::chrono::steady_clock::now() < turns_end) {
    if (turns_->WaitUntilNone(kWatchInterval)) break;
  }
  if (const size_t left = turns_->turns(); left > 0) {
    // Cancelled answers still get their final event before the close.
    LogWarning("{} turns did not end in time and are interrupted", left);
    sessions_->InterruptTurns();
    turns_->WaitUntilNone(patience(3));
  }
  // The ends are durable then and on their way to the sockets.
  if (!sessions_->Flush(patience(3))) LogWarning("the disk does not answer: ends of turns are not durable");
  server_->Stop(patience(2));
  SaveCaches(patience(1));
}

void Serving::SaveCaches(std::chrono::steady_clock::duration time) {
  if (storage_->journal() == nullptr || !engines_->healthy()) return;
  const auto saved = std::make_shared<std::promise<Status>>();
  std::future<Status> status = saved->get_future();
  engines_->SaveAll([saved](const Status& told) { saved->set_value(told); });
  Status told = Unavailable("--shutdown-timeout was exceeded");
  if (status.wait_for(time) == std::future_status::ready) told = status.get();
  const auto [slots, memory] = std::pair(engines_->stats(), storage_->tiers().unsaved());
  if (told.ok()) return LogInfo("every cache is saved");
  LogWarning("{} caches of {} MB were not saved and will be recomputed on use: {}", slots.unsaved + memory.caches,
             (slots.unsaved_bytes + memory.bytes) / 1'000'000, told.message());
}

int Fail(const Status& status, int exit_code) {
  // For a terminal and for the log: the log goes to standard error.
  LogError("{}", status.message());
  return exit_code == kExitFailed && status.code() == StatusCode::kInvalidArgument ? kExitBadConfig : exit_code;
}

/// Main function of the first process.
int Serve(const ServerConfig& config, SignalWatcher& signals, Processes& processes,
          std::optional<StopDeadline>& deadline) {
  Serving serving(config, processes);
  const auto stop = [&](int exit_code) {
    const auto grace = std::chrono::seconds(config.shutdown_grace_s);
    const auto longest = std::chrono::seconds(config.shutdown_timeout_s) + grace + kStopMargin;
    NotifyStopping(longest + kStopMargin);
    deadline.emplace(longest, exit_code);
    if (exit_code == kExitOk) serving.AwaitGrace();
    serving.Drain();
    return exit_code;
  };
  if (Status status = serving.Start(); !status.ok()) {
    const int exit_code = Fail(status, serving.device_failed() ? kExitDeviceFailed : serving.exit_code());
    deadline.emplace(processes.timeout() + kStopMargin, exit_code);
    return exit_code;
  }
  signals.Defer();
  std::printf("ringside-server listening on %s\n", serving.url().c_str());
  std::fflush(stdout);
  NotifyReady(serving.Describe());
  Watchdog watchdog(serving.WatchedParts());
  for (int watch = 1; !signals.Wait(kWatchInterval); ++watch) {
    if (watch % kWatchesPerTend == 0) serving.Tick();
    watchdog.Tick([&serving] { return serving.Describe(); });
    if (signals.TakeHangup()) {
      NotifyReloading();
      serving.Reload();
      NotifyReady(serving.Describe());
    }
    if (serving.storage_failed()) {
      LogError("the journal has failed: exiting, so that the service manager can restart the server");
      return stop(kExitStorageFailed);
    }
    if (!serving.healthy()) {
      LogError("no engine is left: exiting, so that the service manager can restart the server");
      return stop(kExitDeviceFailed);
    }
  }
  const int exit_code = stop(serving.storage_lost() ? kExitStorageFailed : kExitOk);
  LogInfo("stopped");
  return exit_code;
}

}  // namespace

int RunServer(const ServerConfig& config, SignalWatcher& signals) {
  RaiseFileLimit();                      // before the store reads it
  std::optional<StopDeadline> deadline;  // destroyed last
  const auto processes = Processes::Join(std::chrono::seconds(config.rank_timeout_s));
  if (!processes.ok()) return Fail(processes.status(), kExitFailed);
  const bool first = (*processes)->number() == 0;
  const int exit_code =
      first ? Serve(config, signals, **processes, deadline) : FollowFirst(config, signals, **processes, deadline);
  if (first) (void)(*processes)->Leave(exit_code == kExitDeviceFailed);
  return exit_code;
}

}  // namespace ringside
