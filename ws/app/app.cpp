#include "ws/app/app.h"

#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <future>
#include <mutex>
#include <optional>
#include <thread>

#include "base/log.h"
#include "kernels/ranks/processes.h"
#include "session/journal/shared_log.h"
#include "session/table/session_table.h"
#include "ws/app/app_access.h"
#include "ws/app/app_deadline.h"
#include "ws/app/app_engine.h"
#include "ws/app/app_follower.h"
#include "ws/app/app_models.h"
#include "ws/app/app_pictures.h"
#include "ws/app/app_progress.h"
#include "ws/app/app_readiness.h"
#include "ws/app/app_storage.h"
#include "ws/app/app_watchdog.h"
#include "ws/app/app_window.h"
#include "ws/backups.h"
#include "ws/chat/chat_routes.h"
#include "ws/config/machine.h"
#include "ws/config/model_id.h"
#include "ws/engines.h"
#include "ws/fields/ignored_log.h"
#include "ws/handover.h"
#include "ws/health.h"
#include "ws/metrics.h"
#include "ws/models/loaded_model.h"
#include "ws/models/model_pool.h"
#include "ws/models/model_report.h"
#include "ws/models/model_texts.h"
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

HttpResponse MetricsAnswer(Metrics& metrics) {
  HttpResponse response;
  response.content_type = "text/plain; version=0.0.4; charset=utf-8";
  response.body = metrics.Scrape();
  return response;
}

/// Limit of a body or WebSocket message.
int64_t RequestBytes(const ServerConfig& config, const SessionTable& sessions) {
  return sessions.options().pictures != nullptr ? config.max_request_mb << 20 : limits::kMaxMessageBytes;
}

/// All serving components. Members are in construction order; each is declared after the ones it points to.
class Serving {
 public:
  Serving(const ServerConfig& config, Processes& processes) : config_(config), processes_(processes) {}
  ~Serving();

  Status Start();
  /// True until all engines, or the devices below them, have failed permanently.
  bool healthy() const { return models_->status().ok(); }
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
  bool device_failed() const {
    return !std::ranges::all_of(copies_, &ModelCopy::devices_ok) || (models_ != nullptr && !models_->devices_ok());
  }
  /// Exit status if Start fails for a reason other than the device.
  int exit_code() const { return exit_code_; }

 private:
  Status Listen();
  Status LoadModel();
  Status StartEngine();
  /// With --models-dir, instead of these two.
  Status ListModels();
  Status OpenSessions();
  /// Reads everything stored, as `verify` does, and logs the result.
  void CheckStored(const std::stop_token& stop);
  void LogStored() const;
  /// Reason why turns would not be answered; "" = they would. Does not block.
  std::string Trouble() const;
  void Publish();
  Status ServeMetrics();
  void SaveCaches(std::chrono::steady_clock::duration time);
  std::shared_ptr<Service> MakeService();
  void AddMetricsRoute(Service& service);
  /// The models of --models-dir.
  std::vector<ServedModel> ListAll(double created_s) const {
    std::vector<ServedModel> all = ListPooledModels(*list_, *texts_, *models_, created_s);
    for (ServedModel& model : all) model.request_bytes = RequestBytes(config_, *sessions_);
    return all;
  }

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
  std::vector<ModelCopy> copies_;    // until its engines have started
  std::unique_ptr<ModelList> list_;  // these two: with --models-dir only
  std::unique_ptr<ModelTexts> texts_;
  ModelText text_;        // of the only or the default model
  EngineOptions engine_;  // of that model's engine
  std::unique_ptr<ModelPool> models_;
  std::unique_ptr<AppEngine> turns_;
  std::unique_ptr<SessionTable> sessions_;
  std::unique_ptr<Handover> handover_;
  std::unique_ptr<Server> server_;
  struct {
    TransportCounters transport;  // its own traffic is not reported
    std::unique_ptr<Server> server;
  } metrics_port_;
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
  models_.reset();
  metrics_port_.server.reset();
  server_.reset();  // after the last push into an outbox
}

Status Serving::Start() {
  RETURN_IF_ERROR(CheckMemory({.host_cache_mb = config_.host_cache_mb}, MachineMemoryBytes()));
  RETURN_IF_ERROR(Listen());
  if (config_.models_dir.empty()) {
    RETURN_IF_ERROR(LoadModel());
    RETURN_IF_ERROR(StartEngine());
  } else {
    RETURN_IF_ERROR(ListModels());
  }
  metrics_.SetModel(text_.name);
  turns_ = std::make_unique<AppEngine>(*models_, metrics_);
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
  ASSIGN_OR_RETURN(metrics_port_.server, Server::Listen(options, std::move(service), metrics_port_.transport));
  LogInfo("metrics: {}/metrics", metrics_port_.server->url());
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
  RETURN_IF_ERROR(LoadedModel::LoadWeights(config_, processes_, &copies_));
  const Model& model = *copies_.front().model;
  const std::string& served = config_.served_model_name;
  ASSIGN_OR_RETURN(text_, TextOf(config_, served.empty() ? ModelId(config_.model, model.spec().name) : served, model));
  return Status::Ok();
}

Status Serving::StartEngine() {
  ASSIGN_OR_RETURN(EngineOptions options, ResolveEngineOptions(config_, text_.spec));
  if (!config_.cuda) RETURN_IF_ERROR(FitMachine(config_, *copies_.front().model, processes_, &options));
  ASSIGN_OR_RETURN(auto loaded, LoadedModel::Start(config_, &copies_, text_, options, *storage_));
  engine_ = loaded->engines().options();
  engine_.memory_len = WindowOf(loaded->engines());
  models_ = std::make_unique<ModelPool>(config_, processes_, *storage_, nullptr);
  models_->Add(std::move(loaded));
  return Status::Ok();
}

Status Serving::ListModels() {
  if (processes_.count() > 1) return InvalidArgument("--models-dir requires a single process");
  const ProgressReport progress("listing the models of " + config_.models_dir);
  const auto checker = [] { return MakeCpuBackend({.threads = 1}); };
  ASSIGN_OR_RETURN(auto for_list, checker());
  ASSIGN_OR_RETURN(auto for_texts, checker());
  list_ = std::make_unique<ModelList>(config_.models_dir, config_.model_aliases, std::move(for_list));
  RETURN_IF_ERROR(list_->Open());
  texts_ = std::make_unique<ModelTexts>(config_, *list_, std::move(for_texts));
  RETURN_IF_ERROR(texts_->ChooseDefault());
  const auto chosen = texts_->Find(list_->default_name());
  text_ = chosen->text;
  engine_ = chosen->engine;
  models_ = std::make_unique<ModelPool>(config_, processes_, *storage_, texts_.get());
  return Status::Ok();
}

Status Serving::OpenSessions() {
  SessionTableOptions options = ModelOptions(config_, text_, engine_);
  options.models = texts_.get();
  if (options.images != nullptr || options.models != nullptr) {
    ASSIGN_OR_RETURN(options.pictures, OpenPictures(config_));
  }
  ASSIGN_OR_RETURN(options.adapters, AdapterNames(config_, text_.name));
  options.on_ignored = LogIgnoredFields();
  options.limits_of = [this](const std::string& owner, const OwnerLimits& usual) {
    return access_.LimitsOf(owner, usual);
  };
  ASSIGN_OR_RETURN(options.export_key, OpenExportKey(config_, storage_->journal()));
  sessions_ =
      std::make_unique<SessionTable>(std::move(options), *text_.tokenizer, *text_.chat, *turns_, storage_->journal());
  if (Status opened = sessions_->Open(); !opened.ok()) {
    exit_code_ = StorageExitCode(opened);
    return opened;
  }
  handover_ = std::make_unique<Handover>(
      *sessions_, health_, [this](bool refuse) { turns_->RefuseTurns(refuse); }, [this] { return Trouble(); });
  if (config_.verify) {
    const ProgressReport progress("checking what is stored");
    CheckStored({});
  } else if (storage_->journal() != nullptr && !storage_->shared()) {
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
  const auto engines = static_cast<size_t>(config_.data_parallel_size);
  for (size_t i = 0; i < engines; ++i) {
    parts.push_back({engines == 1 ? "the engine" : fmt::format("engine {}", i),
                     [this, i](const std::function<void()>& alive) { models_->Ping(i, alive); }});
  }
  parts.push_back({"the io threads", [this](std::function<void()> alive) { server_->Ping(std::move(alive)); }});
  parts.push_back({"the workers", [this](const std::function<void()>& alive) {
                     if (server_->workers().stalled_ms < kLongestStallMs) alive();
                   }});
  return parts;
}

std::string Serving::Describe() const {
  const EngineStats engine = models_->stats();
  return fmt::format("{} at {}: {} turns running, {} waiting", text_.name, url(), engine.turns_running,
                     engine.turns_waiting);
}

void Serving::Reload() {
  access_.Reload();
  server_->CloseRevoked();
}

void Serving::Tick() {
  access_.Watch();
  server_->CloseRevoked();
  models_->Tick();
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
  const ListServedModels list = texts_ != nullptr
                                    ? [this, now = SystemClock::Instance().WallSeconds()] { return ListAll(now); }
                                    : ListServedModels();
  if (list) {
    AddModelRoutes(service->router, list);
  } else {
    ServedModel model = ServedModelOf(sessions_->options(), SystemClock::Instance().WallSeconds());
    model.request_bytes = RequestBytes(config_, *sessions_);
    AddModelRoutes(service->router, model);
  }
  RegisterClientSecretRoutes(service->router, access_.tickets(), sessions_->options());
  RegisterConversationRoutes(service->router, *sessions_);
  AddBackupRoute(service->router, backups_.get());
  if (texts_ == nullptr) AddEngineRoutes(service->router, models_->only().engines());
  AddOwnerRoutes(service->router, *sessions_);
  if (storage_->shared()) AddServerRoutes(service->router, *handover_);
  AddShareRoutes(*service, *sessions_);
  const RetryAfter retry_after_ms = [this](const std::string& principal) {
    // An owner out of tokens waits for them, whatever the queue's length.
    const int64_t tokens_ms = sessions_->TokensWaitMs({principal, 0});
    return tokens_ms > 0 ? tokens_ms
                         : metrics_.RetryAfterMs(models_->stats().turns_waiting, SystemClock::Instance().MonotonicNs());
  };
  RegisterResponseRoutes(service->router, *sessions_, retry_after_ms);
  const RunOnWorker run = [this](const std::string& client, size_t bytes, std::function<void()> call) {
    return server_->RunOnWorker(client, bytes, std::move(call));
  };
  service->sockets["/v1/responses"] = ResponsesRoute(*sessions_, retry_after_ms, run);
  service->sockets["/v1/realtime"] = RealtimeRoute(*sessions_, run);
  const ChangeModel change = [this](ModelChange what, const std::string& name, Engine::Done done) {
    models_->Change(what, name, std::move(done));
  };
  RegisterChatRoutes(service->router,
                     {.table = *sessions_,
                      .retry_after_ms = retry_after_ms,
                      .run_on_worker = run,
                      .models = list,
                      .change_model = list ? change : nullptr},
                     FactsOf(config_, text_, engine_.slots));
  metrics_.SetSource([this] {
    return MetricsSnapshot{models_->each(),
                           storage_->tiers().stats(),
                           storage_->journal() != nullptr ? storage_->journal()->stats() : JournalStats{},
                           sessions_->stats(),
                           server_->workers(),
                           ReadProcessFigures(),
                           health_.NotReadyReason().empty(),
                           backups_ != nullptr ? backups_->last_made_at() : 0,
                           texts_ != nullptr ? models_->Models() : std::vector<ModelStatus>()};
  });
  for (const std::string& route : service->router.Describe()) LogDebug("route: {}", route);
  for (const auto& [path, route] : service->sockets) LogDebug("route: socket {}", path);
  service->max_message_bytes = RequestBytes(config_, *sessions_);
  server_->Publish(std::move(service));
  Tick();
  if (storage_->shared()) stored_checked_ = true;  // every read checks what it reads
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

std::string Serving::Trouble() const {
  if (const Status engines = models_->status(); !engines.ok()) return engines.message();
  if (texts_ != nullptr && std::ranges::count(models_->Models(), "failed", &ModelStatus::state) >=
                               static_cast<std::ptrdiff_t>(list_->CountLoadable())) {
    return "no model can be loaded";
  }
  if (storage_->lost()) return "the store was deleted, moved or replaced";
  if (!storage_->healthy()) return storage_->shared() ? storage_->Check().message() : "the disk has failed";
  if (storage_->shared() && !storage_->journal()->shared()->HoldsLease()) return "the store does not answer";
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
  sessions_->HandOver(true);
  server_->Drain(fmt::format(R"({{"type":"ringside:server.draining","deadline_ms":{}}})", timeout_ms));
  LogInfo("stopping: {} turns may end within {} s", turns_->turns(), config_.shutdown_timeout_s);
  if (storage_->journal() != nullptr) models_->SaveAll(nullptr);  // turns that run meanwhile save their caches again
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
  const auto turns_end = deadline - std::min(std::chrono::milliseconds(timeout_ms / 3), kWindUpTime);
  // A share of the remaining grace.
  const auto patience = [deadline](int share) {
    const auto left = (deadline - std::chrono::steady_clock::now()) / share;
    return std::max(std::chrono::duration_cast<std::chrono::milliseconds>(left), kLeastPatience);
  };
  while (healthy() && std::chrono::steady_clock::now() < turns_end) {
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
  if (storage_->journal() == nullptr || !healthy()) return;
  const auto saved = std::make_shared<std::promise<Status>>();
  std::future<Status> status = saved->get_future();
  models_->SaveAll([saved](const Status& told) { saved->set_value(told); });
  Status told = Unavailable("--shutdown-timeout was exceeded");
  if (status.wait_for(time) == std::future_status::ready) told = status.get();
  const auto [slots, memory] = std::pair(models_->stats(), storage_->tiers().unsaved());
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
