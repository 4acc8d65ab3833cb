#include "clients/bench/timed_turn.h"

#include <chrono>
#include <utility>

namespace ringside::client {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kPatienceMs = 600000;

double MsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

}  // namespace

Outcome<TimedTurn> RunTimedTurn(ChatClient& client, TurnRequest turn) {
  TimedTurn timed;
  bool heard = false;  // a first token, of reasoning or text
  turn.request_id = MakeRequestId();
  const Clock::time_point start = Clock::now();
  client.link().StartTurn(std::move(turn));
  while (true) {
    const std::optional<LinkEvent> event = client.events().Wait(kPatienceMs);
    if (!event) return Failure{"The server sent nothing for ten minutes."};
    const bool text = event->kind == LinkEvent::Kind::kText;
    const bool output = text || event->kind == LinkEvent::Kind::kReasoning;
    if (output && !heard) timed.ttft_ms = MsSince(start);
    heard |= output;
    if (text) timed.text += event->text;
    if (!event->ends()) continue;
    if (event->kind != LinkEvent::Kind::kFinished) return Failure{event->message};
    if (event->server.failed()) return Failure{event->server.error.message};
    timed.total_ms = MsSince(start);
    if (!heard) timed.ttft_ms = timed.total_ms;
    timed.report = event->server.report;
    return timed;
  }
}

Outcome<Done> RunRewind(ChatClient& client, const std::string& conversation, int64_t to) {
  client.link().Rewind(conversation, to);
  while (true) {
    const std::optional<LinkEvent> event = client.events().Wait(kPatienceMs);
    if (!event) return Failure{"The server sent nothing for ten minutes."};
    if (event->kind == LinkEvent::Kind::kVerbDone) return Done{};
    if (event->ends()) return Failure{event->message};
  }
}

}  // namespace ringside::client
