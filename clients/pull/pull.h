// `ringside pull`: downloads a model from Hugging Face, Ollama's registry or a URL. Blocking. THREAD: main.
#pragma once

#include <cstdint>
#include <string>

#include "clients/pull/pull_reference.h"
#include "clients/wire/outcome.h"

namespace ringside::client {

struct PullOptions {
  std::string reference;  // ParsePullReference
  std::string sha256;     // of the file at a URL; "" = unknown
  int retries = 5;        // in a row without a new byte
  int64_t timeout_s = 30;
  std::string ca_file;  // "" = the system's authorities
  bool quiet = false;   // no progress
};

/// Downloads the model unless it is there. Returns the path for --model. Fails with a sentence.
Outcome<std::string> Pull(const PullReference& reference, const PullOptions& options);

/// Prints the path, or the reason on standard error. Returns the exit code.
int PullModel(const PullOptions& options);

}  // namespace ringside::client
