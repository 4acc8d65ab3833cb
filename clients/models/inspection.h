// Whether models load here, and their needs: `ringside-server inspect`, run as a child process, reads their headers.
// The client shares no code with the server, and a damaged file cannot harm it. THREAD: any.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "clients/wire/outcome.h"

namespace ringside::client {

struct Inspection {
  bool loads = false;
  std::string reason;  // the server's sentence, without the path; "" if it loads
  std::string architecture;
  int64_t context = 0;  // tokens; 0 = unbounded
  int64_t weight_bytes = 0, token_bytes = 0, cache_bytes = 0, cache_tokens = 0;
  int64_t machine_bytes = 0;  // memory of this machine

  /// Memory of a server with one conversation of `cache_tokens` tokens.
  int64_t memory_bytes() const { return weight_bytes + cache_bytes + kServerBytes; }
  bool fits() const { return memory_bytes() <= machine_bytes; }
  /// Tokens per second of one conversation, from the bytes per second that this machine reads; 0 = unknown.
  double TokenRate(double memory_rate) const;

  static constexpr int64_t kServerBytes = int64_t{200} << 20;  // program, tokenizer, buffers of a step
};

/// One result per path, in order. Fails if the server's program cannot be run.
Outcome<std::vector<Inspection>> InspectModels(const std::vector<std::string>& paths);

}  // namespace ringside::client
