// One Realtime session: reads client events, changes its conversation, starts responses, answers into the connection's
// outbox. One at a time works on its events: a worker with the newest message, or one with what had to wait for a
// response. Events of responses arrive on other threads and touch the outbox and what `mutex_` guards only. Order of
// locks: `working_`, a session's, `mutex_`, the outbox's.
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
  /// `table` outlives the socket. `run` works on what had to wait; null = the table's own thread does.
  RealtimeSocket(SessionTable& table, std::string principal, std::shared_ptr<Outbox> outbox, RunOnWorker run,
                 TraceContext trace = {});

  /// First: goes on with this conversation, "" = a new one, and greets. `session`: a session object, as JSON, that its
  /// client was given with the ticket; "" = none. `ignored`: fields of the upgrade without effect.
  void Open(const std::string& conversation, const std::string& model, const std::string& session,
            const std::vector<std::string>& ignored = {});
  /// One whole message, text or binary: a JSON object. Never fails: what is wrong with it is answered.
  void OnMessage(std::string_view message);
  /// The connection is gone. An answer of the conversation runs on, others are cancelled soon; a conversation in which
  /// nothing was said goes.
  void OnClosed();
  bool busy() const;

 private:
  struct Event {
    JsonValue body;
    std::string type, id;
  };

  Status Read(std::string_view message, Event* event) const;
  void Work(const Event& event);
  /// Keeps what cannot be done while a response is made, to be done behind it; false if it can.
  Result<bool> Defer(const Event& event, std::string_view message);
  void WorkOnDeferred();
  void RefuseDeferred(const Status& status);
  /// On a worker, if there are any. The error if they have no room.
  Status Run(size_t bytes, const std::function<void()>& call) const;
  void OnEnded(const Response& response, bool in_conversation, const std::function<void()>& tell);

  Status UpdateSession(const JsonValue& body);
  /// The conversation that the settings ask for: the one that there is or, if `id` is "", a new one.
  Status Enter(const std::string& id, RealtimeSettings* settings);
  Status FitWindow(RealtimeSettings* settings);
  /// Where `previous_item_id` puts an item.
  struct Place {
    std::optional<std::string> after;  // as SessionTable::AddItems has it
    std::string previous;              // our id of the item before it; "" = none
  };
  Result<Place> FindPlace(const std::optional<std::string>& behind) const;
  /// Reads an event; `ignored`: its fields without effect, which have been noted.
  template <class E>
  Status ReadEvent(const FieldTable<E>& fields, const JsonValue& body, E* event,
                   std::vector<std::string>* ignored) const;
  Status CreateItem(const JsonValue& body);
  Status DeleteItem(const JsonValue& body);
  Status RetrieveItem(const JsonValue& body);
  Status CreateResponse(const JsonValue& body);
  Status CancelResponse(const JsonValue& body);
  /// The messages of a response that is no part of the conversation.
  Result<std::vector<NewItem>> InputOf(const std::optional<std::vector<RealtimeInput>>& input) const;

  // Items have the table's ids; those that a client chose are other names of them.
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
  bool made_here_ = false;                         // the conversation
  WindowOverrides window_;                         // that it has: both of what settings can ask for
  std::map<std::string, std::string> own_ids_;     // by the client's
  std::map<std::string, std::string> client_ids_;  // by ours

  mutable std::mutex mutex_;
  std::map<std::string, std::shared_ptr<RealtimeSink>> beside_;  // by response: those that are no part of it
  std::shared_ptr<RealtimeSink> sink_;                           // of the conversation's running response
  std::string response_;                                         // its id, once known
  std::string last_item_;                                        // of the conversation; "" = none
  struct Deferred {
    std::string message;  // as text: parsed it would be larger
    HeldBytes held;       // by its owner
  };
  std::deque<Deferred> deferred_;
  size_t deferred_bytes_ = 0;
  bool said_ = false;  // anything is in the conversation
  bool closed_ = false;
};

/// The client events that have fields.
std::vector<RequestKind> RealtimeEventKinds();

}  // namespace ringside
