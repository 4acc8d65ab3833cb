// What the operator asked for: command line over environment over config file over default, decided for every setting
// on its own. Parsed once in main; a plain value afterwards.
//
// Every setting has one name, its long flag: `--memory-len`, RINGSIDE_MEMORY_LEN and `memory-len:` in the file mean the
// same, and the aliases of a flag are understood in all three places.
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

namespace ringside {

struct ModelSpec;

/// What of a conversation is on disk before a client hears of it.
enum class StoreDurability { kToken, kTurn, kNone };

struct ServerConfig {
  std::string model;                       // its files, in any format that we load
  std::string served_model_name;           // "" = the model's own name
  std::vector<std::string> model_aliases;  // further names; a trailing '*' matches any end
  bool strict_requests = false;            // refuse unknown fields and hints
  std::vector<NamedAdapter> adapters;
  std::string chat_template;  // a name or a file; "" = the model's own

  std::string host = "127.0.0.1";
  int64_t port = 8080;  // 0 = any free one
  std::vector<std::string> api_keys;
  std::string keys_file;  // "" = none
  std::vector<std::string> allowed_origins, allowed_hosts;
  bool allow_public = false;
  bool no_ui = false;                    // no page at /
  std::string ui_dir;                    // read the page's files from here at every request; "" = those in the program
  std::string tls_certificate, tls_key;  // files; "" = plain HTTP
  std::optional<int64_t> metrics_port;   // nothing = on the other port; 0 = any free one
  std::string metrics_host = "127.0.0.1";
  int64_t io_threads = 2;
  int64_t worker_threads = 2;
  std::optional<int64_t> max_connections, max_connections_per_owner;  // nothing = what ResolveConnections says
  int64_t max_connection_age_s = 0;                                   // 0 = no limit
  int64_t idle_timeout_s = 0;                                         // 0 = no limit
  int64_t shutdown_timeout_s = 30, shutdown_grace_s = 0;

  std::string store_path;                                // "" = nothing on disk
  StoreDurability durability = StoreDurability::kToken;  // kNone without a store_path
  std::string encryption_key;                            // 32 bytes; "" = stored as it is
  std::string export_key_file;                           // "" = beside what is stored
  std::string backup_path;                               // "" = no backups
  bool accept_foreign_imports = false;
  bool verify = false, accept_lost_tail = false;
  int64_t purge_interval_s = 3600;

  int64_t session_idle_host_ms = 60'000, session_idle_disk_ms = 600'000;
  int64_t session_ttl_s = 30 * 86400;  // 0 = never
  int64_t host_cache_mb = 1024, disk_cache_mb = 16384;
  int64_t max_turns_per_owner = 64, max_sessions_per_owner = 10'000, max_text_mb_per_owner = 1024;  // 0 = no limit
  int64_t max_chains_per_owner = 10'000, max_stored_mb_per_owner = 16384;                           // likewise
  int64_t max_tokens_per_owner = 0;  // in a minute; likewise
  int64_t max_detached_tokens = 4096;

  int64_t slots = 0, kv_cache_mb = 0;  // 0 = 8 with whole windows, or on a GPU what fits
  // Nothing = what suits the model and the other settings.
  std::optional<int64_t> memory_len, session_len, pinned_max, prefill_chunk, step_tokens, max_step_ms;
  int64_t rebuild_windows = 0;
  Eviction eviction = Eviction::kTurn;
  DType kv_cache_dtype = DType::kF16;
  int64_t queue_limit = 256;
  bool cuda = false;  // the forward pass on a GPU instead of the CPU
  CpuBackendOptions cpu;
  CudaBackendOptions gpu;
  int64_t data_parallel_size = 1;
  int64_t tensor_parallel_size = 1;
  bool tensor_parallel_force = false;
  int64_t pipeline_parallel_size = 1;
  LoadFormat load_format = LoadFormat::kAuto;
  int64_t rank_timeout_s = 30;

  std::optional<double> temperature, top_p;  // where a request says nothing; nothing = as the model's makers want it
  std::optional<int64_t> max_output_tokens;  // without one in the request; absent = the rest of the window
  bool no_repetition_guard = false;          // do not end answers that repeat themselves
  // Nothing = 32,768, or what the window shows if that is more.
  std::optional<int64_t> max_output_tokens_limit, max_input_tokens;
  int64_t turn_timeout_s = 1800;  // 0 = never

  LogLevel log_level = LogLevel::kInfo;
  LogFormat log_format = LogFormat::kAuto;
};

struct ParsedConfig {
  ServerConfig config;
  std::string print;  // not empty: print this and exit 0 (--help, --version, --describe)
};

/// `args` without the program's name; `environment` name to value, as of the process. kInvalidArgument with a sentence
/// that names the setting, the place it came from and what is wrong with it: an unknown key, a bad value, a bad
/// combination. Reads the config file and the key file.
Result<ParsedConfig> ParseConfig(const std::vector<std::string>& args,
                                 const std::map<std::string, std::string>& environment);

/// The engine's options for this model. Settings left open are fitted to what the model was trained for; a setting
/// given that cannot be met is kInvalidArgument, naming both numbers.
Result<EngineOptions> ResolveEngineOptions(const ServerConfig& config, const ModelSpec& spec);

}  // namespace ringside
