// The state machine of SessionLink. THREAD: the IoRuntime's, except for Stop.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>

#include "clients/wire/session_link.h"

namespace ringside::client {

class SessionLink::Core : public std::enable_shared_from_this<SessionLink::Core> {
 public:
  Core(IoRuntime& runtime, LinkOptions options, std::function<void(LinkEvent)> on_event);

  void StartTurn(const TurnRequest& turn);
  void StartVerb(const std::string& session, const std::string& frame);
  void Cancel();
  void Abandon();
  void DropSocket();
  /// No event is delivered after it returns. THREAD: any but the runtime's.
  void Stop();
  IoRuntime& runtime() { return runtime_; }

 private:
  enum class Job { kNone, kTurn, kVerb };

  void Begin(Job job, const std::string& session, const std::string& frame);
  void Connect();
  void OnOpen();
  void OnEnd(const SocketEnd& end);
  void OnMessage(std::string_view message);
  void Retry(const std::string& reason, int64_t retry_after_ms);

  void OnResumed(const ServerEvent& event);
  void OnSnapshot(ServerEvent event);
  void OnTurnEvent(ServerEvent event);
  void OnVerbEvent(ServerEvent event);
  void OnError(ServerEvent event);
  bool IsNew(const ServerEvent& event);
  void Started(const std::string& response_id);
  /// Delivers the missing end of the reasoning, unless the answer has begun.
  void TellMissingReasoning(const std::string& whole);

  void CloseSocket();
  void Tell(LinkEvent event);
  void Finish(LinkEvent event);

  IoRuntime& runtime_;
  const LinkOptions options_;

  std::mutex told_mutex_;
  std::function<void(LinkEvent)> on_event_;  // null after Stop

  std::shared_ptr<Socket> socket_;
  bool open_ = false;
  uint64_t connection_ = 0;  // counts sockets, to recognise handlers and timers of an older one
  int attempt_ = 0;
  std::minstd_rand random_{std::random_device{}()};

  Job job_ = Job::kNone;
  uint64_t job_number_ = 0;
  std::string session_;
  std::string frame_;  // the request that started the job
  bool cancel_wanted_ = false;
  std::string response_id_;  // of the turn, once known
  std::string text_;         // the turn's text delivered so far
  std::string reasoning_;    // the turn's reasoning delivered so far
  std::optional<uint64_t> last_seq_, epoch_;
  std::optional<HistoryPosition> known_;
};

}  // namespace ringside::client
