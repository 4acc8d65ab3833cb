// The real engine loop, scheduler, pool and tiers under a planned load, on a simulated device and a virtual clock: no
// threads, no waiting, reproducible results. Omits the disk tier, and the other work of server and clients (represented
// by ClientCosts).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "tools/sim/cost_model.h"
#include "tools/sim/load.h"
#include "tools/sim/sim_device.h"
#include "ws/config/config.h"

namespace ringside {

/// Delays between a client and the engine, in ms. All conversations share one single-threaded client, like the load
/// generators used for the measurements.
struct ClientCosts {
  // Sequential, on the client's thread: to write a turn, for each of its new tokens, to read a token or an end.
  double write = 0, write_token = 0, read = 0;
  // Concurrent: socket, JSON, tokenizer and journal on the way to the engine, for each new token, and back.
  double to_engine = 0, to_engine_token = 0, to_client = 0;
};
/// Measured with a single conversation (to_...), and with a client in Python (the others).
inline constexpr ClientCosts kMeasuredClient{
    .write = 0.1, .write_token = 0.0005, .read = 0.015, .to_engine = 1.5, .to_engine_token = 0.002, .to_client = 0.5};

/// The server's settings, as on its command line, on a GPU.
Result<ServerConfig> SimulatedServer(const std::vector<std::string>& settings);

struct SimTurn {
  int64_t conversation = 0, user = 0, number = 0;  // number: in its conversation, from 0
  std::string role;                                // PlannedConversation::role
  int64_t input = 0, output = 0;                   // new tokens, generated tokens
  // On the client's clock, in ms since the start.
  double sent_ms = 0, first_ms = 0, end_ms = 0;
  double begun_ms = 0;          // when the engine started it: it had a slot
  std::vector<double> gaps_ms;  // between its tokens
  int64_t ends = 0;             // number of end events from the engine: 1
  FinishReason reason = FinishReason::kStop;
  CacheReport report;
};

struct SimResult {
  std::vector<SimTurn> turns;  // in submission order
  double ms = 0;               // from the first to the end of the last
  double device_ms = 0;        // the part in which the device had steps
  SimCopies copies;
  double longest_pause_ms = 0;  // caused by copies in one round of the engine's thread
  EngineStats engine;
};

/// `config`: the server's settings, including --slots.
Result<SimResult> Simulate(const CostModel& cost, const ServerConfig& config, const ClientCosts& client,
                           const std::vector<PlannedConversation>& load);

}  // namespace ringside
