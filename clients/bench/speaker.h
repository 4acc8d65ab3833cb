// One conversation with a server, as a load client holds it: it says a message and hears the answer while it comes.
// Lives on an IoRuntime: everything is called there, but for making and destroying.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "clients/bench/protocol.h"
#include "clients/wire/io_runtime.h"
#include "clients/wire/server_access.h"

namespace ringside::client {

struct SpeakerOptions {
  Protocol protocol = Protocol::kRingside;
  std::string conversation;  // of kRingside: "conv_..."
  std::string model;
  int max_tokens = 64;
  bool ignore_eos = false;
};

class Speaker {
 public:
  using Listener = std::function<void(const HeardEvent&)>;

  virtual ~Speaker() = default;
  /// Says the next message. The listener hears events until one `ends`; then the next message may be said.
  virtual void Say(const std::string& text) = 0;
  /// Lost connections that were made good.
  virtual int reconnects() const { return 0; }
};

/// `listener` is called on the runtime's thread and never after the speaker is gone. `runtime` outlives it.
std::unique_ptr<Speaker> MakeSpeaker(IoRuntime& runtime, const ServerAccess& server, const SpeakerOptions& options,
                                     Speaker::Listener listener);

}  // namespace ringside::client
