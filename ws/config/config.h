// The operator's settings. Precedence for each setting: command line, environment, config file, default. Parsed once in
// main; a plain value afterwards. Each setting has one name, its long flag: `--memory-len`, RINGSIDE_MEMORY_LEN and
// `memory-len:` in the file are equivalent, and a flag's aliases work in all three places.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/limits.h"
#include "base/log.h"
#include "base/status.h"
#include "cache/ring.h"
#include "engine/engine_options.h"
#include "engine/model/weights/load_format.h"
#include "kernels/backend_options.h"
#include "kernels/tensor.h"
#include "ws/transport/fetch/image_url.h"

namespace ringside {

struct ModelSpec;

/// Parts of a conversation that are synced to disk before the client receives them.
enum class StoreDurability { kToken, kTurn, kNone };

struct ServerConfig {
  std::string profile;                     // "" = none
  std::string model;                       // model files in any supported format
  std::string models_dir;                  // models to load on demand; "" = `model` only
  int64_t models_max = 1;                  // of these, loaded at once
  int64_t models_memory_mb = 0;            // of all loaded ones; 0 = as ModelsMemoryOf
  std::string served_model_name;           // "" = the model's own name
  std::vector<std::string> model_aliases;  // a trailing '*' matches any suffix
  bool strict_requests = false;            // refuse unknown fields and hints
  std::vector<NamedAdapter> adapters;
  std::string chat_template;  // name or file; "" = the model's own

  std::string host = "127.0.0.1";
  int64_t port = 8080;  // 0 = any free port
  std::vector<std::string> api_keys;
  std::string keys_file;  // "" = none
  std::vector<std::string> allowed_origins, allowed_hosts;
  std::vector<WebOrigin> image_hosts;  // from which images may be fetched
  bool allow_public = false;
  bool no_ui = false;  // serve no page at /
  // folder from which the page's files are read at each request; "" = built-in files
  std::string ui_dir;
  std::string tls_certificate, tls_key;  // files; "" = plain HTTP
  std::optional<int64_t> metrics_port;   // nullopt = on the main port; 0 = any free port
  std::string metrics_host = "127.0.0.1";
  int64_t io_threads = 2;
  int64_t worker_threads = 2;
  std::optional<int64_t> max_connections, max_connections_per_owner;  // nullopt = as ResolveConnections decides
  int64_t max_request_mb = limits::kImageRequestBytes >> 20;          // with images; without, kMaxMessageBytes
  int64_t max_connection_age_s = 0;                                   // 0 = no limit
  int64_t idle_timeout_s = 0;                                         // 0 = no limit
  int64_t shutdown_timeout_s = 30, shutdown_grace_s = 0;

  std::string store_path;   // "" = nothing on disk
  std::string store_url;    // of a PostgreSQL database; "" = the store is a folder
  std::string server_name;  // in that database; "" = the host's name and the port
  int64_t lease_s = 10;
  StoreDurability durability = StoreDurability::kToken;  // kNone without a store
  std::string encryption_key;                            // 32 bytes; "" = not encrypted
  std::string export_key_file;                           // "" = in the store's folder
  std::string backup_path;                               // "" = no backups
  bool accept_foreign_imports = false;
  bool verify = false, accept_lost_tail = false;
  int64_t purge_interval_s = 3600;

  int64_t session_idle_host_ms = 60'000, session_idle_disk_ms = 600'000;
  int64_t session_ttl_s = 30 * 86400;  // 0 = never
  int64_t host_cache_mb = 1024, disk_cache_mb = 16384;
  int64_t max_turns_per_owner = 64, max_sessions_per_owner = 10'000, max_text_mb_per_owner = 1024;  // 0 = no limit
  int64_t max_chains_per_owner = 10'000, max_stored_mb_per_owner = 16384;                           // 0 = no limit
  int64_t max_tokens_per_owner = 0;  // per minute; 0 = no limit
  int64_t max_detached_tokens = 4096;

  int64_t slots = 0, kv_cache_mb = 0;  // 0 = 8 slots with whole windows, or on a GPU as many as fit
  // nullopt = derived from the model and the other settings.
  std::optional<int64_t> memory_len, session_len, pinned_max, prefill_chunk, step_tokens, target_itl_ms;
  std::optional<Speculation> speculation;
  int64_t rebuild_windows = 0;
  Eviction eviction = Eviction::kTurn;
  DType kv_cache_dtype = DType::kF16;
  int64_t queue_limit = 256;
  int64_t max_wait_ms = 0;  // 0 = no limit
  bool cuda = false;        // run the forward pass on a GPU
  CpuBackendOptions cpu;
  CudaBackendOptions gpu;
  int64_t data_parallel_size = 1;
  int64_t tensor_parallel_size = 1;
  bool tensor_parallel_force = false;
  int64_t pipeline_parallel_size = 1;
  LoadFormat load_format = LoadFormat::kAuto;
  int64_t rank_timeout_s = 30;

  std::optional<double> temperature, top_p;  // request defaults; nullopt = the model's recommendation
  std::optional<int64_t> max_output_tokens;  // request default; nullopt = the rest of the window
  bool no_repetition_guard = false;          // let answers repeat without end
  // nullopt = 32,768, or the window if that is larger.
  std::optional<int64_t> max_output_tokens_limit, max_input_tokens;
  int64_t turn_timeout_s = 1800;  // 0 = never

  LogLevel log_level = LogLevel::kInfo;
  LogFormat log_format = LogFormat::kAuto;

  bool single_rank() const { return tensor_parallel_size * pipeline_parallel_size == 1; }
};

struct ParsedConfig {
  ServerConfig config;
  std::string profile_line;  // for the log: the settings of the profile; "" = no profile
  std::string print;         // not empty: print this text and exit with 0 (--help, --version, --describe)
};

/// Parses `args` (without the program's name), `environment`, the config file and the key file.
/// ERRORS: kInvalidArgument for an unknown key, an invalid value or an invalid combination, naming the setting, its
/// source and the fault.
Result<ParsedConfig> ParseConfig(const std::vector<std::string>& args,
                                 const std::map<std::string, std::string>& environment);

/// Whether and how the engine drafts tokens.
Speculation SpeculationOf(const ServerConfig& config);

/// Returns the engine's options for this model. Unset options follow the model's training.
/// ERRORS: kInvalidArgument, naming both numbers, for a setting that the model cannot meet.
Result<EngineOptions> ResolveEngineOptions(const ServerConfig& config, const ModelSpec& spec);

}  // namespace ringside
