// Implementation of ResponsesSocket: its lanes and sinks. One mutex guards the lanes; it is never held while the
// session table is called. Lock order: a session's, this one, the Outbox's.
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "ws/content/response_objects.h"
#include "ws/json/json_value.h"
#include "ws/openai/responses/responses.h"
#include "ws/openai/responses/responses_outbox.h"

namespace ringside {

class ResponsesSocket::Impl : public std::enable_shared_from_this<ResponsesSocket::Impl> {
 public:
  Impl(SessionTable& table, std::string principal, std::shared_ptr<Outbox> outbox, RetryAfter retry_after_ms,
       RunOnWorker run, TraceContext trace);

  void OnMessage(std::string_view message);
  void OnClosed();
  bool busy() const;
  /// Resumes a session for this connection; the result goes to the outbox.
  void Attach(const ResumeRequest& request, const std::string& stream_id, const std::vector<std::string>& ignored);

 private:
  class LaneSink;
  class ResumeSink;
  /// Creates with the same stream_id run one after another. "" is the default lane.
  struct Queued {
    std::string message;  // unparsed, because the parsed form can be many times larger
    HeldBytes held;       // charged to its owner
  };
  struct Lane {
    std::deque<Queued> queue;
    std::shared_ptr<LaneSink> sink;  // of the running turn
    bool running = false;
    bool waiting = false;       // queued for a place among the connection's turns
    bool cancel_asked = false;  // before the response had an id
    std::string response_id;    // of the running turn, once known
    std::string local_id;       // newest response visible to this connection only
  };

  void Create(const JsonValue& body, std::string_view message);
  void Pump(const std::string& name);
  bool StartNext(const std::string& name);
  /// Marks the lane as busy and returns the sink of its next turn; null if a turn runs or the lane must wait for a
  /// place.
  /// REQUIRES: the mutex is held.
  std::shared_ptr<LaneSink> Occupy(const std::string& name, Lane& lane);
  bool Start(const std::string& name, const JsonValue& body, const std::shared_ptr<LaneSink>& sink);
  void OnCreated(const std::string& name, const Response& response);
  void OnEnded(const std::string& name, const Response& response);
  /// Marks the lane as free.
  /// REQUIRES: the mutex is held.
  void Release(Lane& lane);
  void PumpWaiting();
  /// Lets a worker pump the lane, then the lanes that wait for a place. If no worker is available, refuses requests
  /// that no later event would start.
  void PumpOnWorker(const std::string& name);
  void RefuseWaiting(const std::string& name, const Status& status);

  void Cancel(const JsonValue& event);
  void Steer(const JsonValue& event);
  void Resume(const JsonValue& event);
  void Rewind(const JsonValue& event);
  void Compact(const JsonValue& event);
  void Fork(const JsonValue& event);
  void FailVerb(const char* verb, const Status& status);
  /// Writer for events of the lane; "" = the default one.
  EventWriter Writer(const std::string& stream_id) const;
  void PushError(const Status& status, const std::string& stream_id);
  /// The lane named by an event, "" for none.
  /// ERRORS: kInvalidArgument (invalid_stream_id).
  static Result<std::string> StreamId(const JsonValue& event);

  SessionTable& table_;
  const Caller caller_;
  const std::shared_ptr<Outbox> outbox_;
  const RetryAfter retry_after_ms_;
  const RunOnWorker run_;

  mutable std::mutex mutex_;
  std::map<std::string, Lane> lanes_;
  std::deque<std::string> waiting_;                            // lanes that wait for a place, oldest first
  std::map<std::string, std::shared_ptr<EventSink>> resumed_;  // by session
  size_t in_flight_ = 0;
  size_t queued_bytes_ = 0;
  bool closed_ = false;
};

// The parts of ResponseRequestKinds.
std::vector<RequestKind> SessionVerbKinds();
std::vector<RequestKind> ResumeKinds();
std::vector<RequestKind> ResponseHttpKinds();

}  // namespace ringside
