// The models of the server as lists show them. Plain values. THREAD: any.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/limits.h"
#include "base/status.h"
#include "session/session_options.h"

namespace ringside {

struct ServedModel {
  std::string name;
  int64_t created = 0;      // load time, seconds since 1970
  int64_t request_len = 0;  // tokens of one request: vLLM's max_model_len
  SamplingParams sampling;  // request defaults
  int64_t max_output_tokens = 0;
  std::vector<std::string> adapters = {};
  int64_t session_len = 0, memory_len = 0, pinned_max = 0;  // limits in tokens: conversation, window, pinned prefix
  std::vector<std::string> aliases = {};                    // more names of the model, as in SessionTableOptions

  bool images = false;                               // it reads images
  int64_t request_bytes = limits::kMaxMessageBytes;  // largest body or WebSocket message, the server's

  // In a server that loads models on demand; else `state` is "".
  std::string state = {};            // "loaded", "loading", "unloading", "unloaded", "failed", "unsupported"
  std::string reason = {};           // of the last two states
  std::string family = {};           // architecture
  int64_t file_bytes = 0;            // of its files
  int64_t memory_bytes = 0;          // weights and cache memory while loaded
  int64_t running = 0, waiting = 0;  // turns
  bool default_model = false;        // the one of requests that name none
};

/// The model of a table with these options, loaded at `created_s` (seconds since 1970).
ServedModel ServedModelOf(const SessionTableOptions& options, double created_s);

/// Returns all models. May read a folder.
using ListServedModels = std::function<std::vector<ServedModel>()>;

enum class ModelChange { kLoad, kUnload };
/// Loads or unloads a listed model, and calls `done` at the end, on any thread; `done` must not block.
using ChangeModel =
    std::function<void(ModelChange change, const std::string& name, std::function<void(const Status&)> done)>;

}  // namespace ringside
