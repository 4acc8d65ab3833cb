// One conversation of a load client: sends a message and receives the answer as it streams. THREAD: the IoRuntime's,
// except for construction and destruction.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "clients/bench/protocol.h"
#include "clients/wire/server_access.h"
#include "clients/wire/transport/io_runtime.h"

namespace ringside::client {

struct SpeakerOptions {
  Protocol protocol = Protocol::kRingside;
  std::string conversation;  // for kRingside: "conv_..."
  std::string model;
  int max_tokens = 64;
  bool ignore_eos = false;
};

class Speaker {
 public:
  using Listener = std::function<void(const HeardEvent&)>;

  virtual ~Speaker() = default;
  /// Sends the next message. The listener receives events until one `ends`; only then may the next message be sent.
  virtual void Say(const std::string& text) = 0;
  /// Number of lost connections that were restored.
  virtual int reconnects() const { return 0; }
};

/// `listener` runs on the runtime's thread, and never after the speaker is destroyed. REQUIRES: `runtime` outlives the
/// speaker.
std::unique_ptr<Speaker> MakeSpeaker(IoRuntime& runtime, const ServerAccess& server, const SpeakerOptions& options,
                                     Speaker::Listener listener);

}  // namespace ringside::client
