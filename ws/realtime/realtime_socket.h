// One Realtime session: handles client events, changes its conversation, starts responses and writes to the
// connection's outbox. One worker at a time handles its events: the newest message, or deferred ones. Events of
// responses arrive on other threads, which use only the outbox and members guarded by `mutex_`. Lock order: `working_`,
// a session's, `mutex_`, the outbox's.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "session/table/session_table.h"
#include "ws/json/json_value.h"
#include "ws/realtime/realtime_request.h"
#include "ws/realtime/realtime_sink.h"
#include "ws/transport/run_on_worker.h"

namespace ringside {

class RealtimeSocket : public std::enable_shared_from_this<RealtimeSocket> {
 public:
  /// `run` executes deferred work; null = the table's own thread.
  /// REQUIRES: `table` outlives the socket.
  RealtimeSocket(SessionTable& table, std::string principal, std::shared_ptr<Outbox> outbox, RunOnWorker run,
                 TraceContext trace = {});

  /// Called first: continues this conversation ("" = a new one) and sends the greeting. `session`: JSON session object
  /// that came with the ticket; "" = none. `ignored`: ignored fields of the upgrade.
  void Open(const std::string& conversation, const std::string& model, const std::string& session,
            const std::vector<std::string>& ignored = {});
  /// Handles one complete message, text or binary: a JSON object. Errors are sent to the client.
  void OnMessage(std::string_view message);
  /// The connection is closed. A response of the conversation continues, others are cancelled; an empty conversation is
  /// deleted.
  void OnClosed();
  bool busy() const;

 private:
  struct Event {
    JsonValue body;
    std::string type, id;
  };

  Status Read(std::string_view message, Event* event) const;
  void Work(const Event& event);
  /// Defers an event that cannot be handled while a response runs; false if it can be handled now.
  Result<bool> Defer(const Event& event, std::string_view message);
  void WorkOnDeferred();
  void RefuseDeferred(const Status& status);
  /// Runs `call` on a worker if there are any.
  /// ERRORS: the workers have no room.
  Status Run(size_t bytes, const std::function<void()>& call) const;
  void OnEnded(const Response& response, bool in_conversation, const std::function<void()>& tell);

  Status UpdateSession(const JsonValue& body);
  /// Opens the conversation for the settings: the existing one or, if `id` is "", a new one.
  Status Enter(const std::string& id, RealtimeSettings* settings);
  Status FitWindow(RealtimeSettings* settings);
  /// Position given by `previous_item_id`.
  struct Place {
    std::optional<std::string> after;  // as in SessionTable::AddItems
    std::string previous;              // own id of the item before it; "" = none
  };
  Result<Place> FindPlace(const std::optional<std::string>& behind) const;
  /// Parses an event; `ignored`: its ignored fields, already counted.
  template <class E>
  Status ReadEvent(const FieldTable<E>& fields, const JsonValue& body, E* event,
                   std::vector<std::string>* ignored) const;
  Status CreateItem(const JsonValue& body);
  Status DeleteItem(const JsonValue& body);
  Status RetrieveItem(const JsonValue& body);
  Status CreateResponse(const JsonValue& body);
  Status CancelResponse(const JsonValue& body);
  /// Messages of a response outside the conversation.
  Result<std::vector<NewItem>> InputOf(const std::optional<std::vector<RealtimeInput>>& input) const;

  // Converts a client's id to the table's: items have the table's ids, with client-chosen ids as aliases.
  std::string OwnId(const std::string& id) const;
  std::string ClientId(const std::string& id) const;
  Result<ItemView> FindItem(const std::string& id) const;

  void Push(std::string_view type, const std::string& members) { outbox_->Push(writer_->Event(type, members)); }

  SessionTable& table_;
  const Caller caller_;
  const std::shared_ptr<Outbox> outbox_;
  const RunOnWorker run_;
  const std::shared_ptr<const RealtimeWriter> writer_ = std::make_shared<const RealtimeWriter>();

  std::mutex working_;
  RealtimeSettings settings_;
  bool made_here_ = false;                         // the conversation was created here
  WindowOverrides window_;                         // of the conversation: the settings that can be requested
  std::map<std::string, std::string> own_ids_;     // own ids by the client's
  std::map<std::string, std::string> client_ids_;  // the client's ids by own

  mutable std::mutex mutex_;
  std::map<std::string, std::shared_ptr<RealtimeSink>> beside_;  // responses outside the conversation, by id
  std::shared_ptr<RealtimeSink> sink_;                           // of the conversation's running response
  std::string response_;                                         // id of the running response, once known
  std::string last_item_;                                        // of the conversation; "" = none
  struct Deferred {
    std::string message;  // as text, because it is smaller than the parsed form
    HeldBytes held;       // charged to its owner
  };
  std::deque<Deferred> deferred_;
  size_t deferred_bytes_ = 0;
  bool said_ = false;  // the conversation has contents
  bool closed_ = false;
};

/// Client events that have fields.
std::vector<RequestKind> RealtimeEventKinds();

}  // namespace ringside
