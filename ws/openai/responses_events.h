// Turn events as the Responses protocol's server events, and the response and item objects inside them. Used by the
// socket (frames into an Outbox), by the HTTP routes and by replays, so that all show the same. Pure but for the
// Outbox; called under a session's lock: copies what it needs, calls nothing back.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "engine/text/tokenizer.h"
#include "session/chat/timeline.h"
#include "session/event_sink.h"
#include "session/journal/journal.h"
#include "ws/json/json_writer.h"
#include "ws/transport/outbox.h"

namespace ringside {

/// The response object as it stands, as JSON. `model` is the served name.
std::string ResponseObject(const Response& response, const Tokenizer& tokenizer, const std::string& model);
/// A conversation item, as JSON.
std::string ItemObject(const Item& item);
/// {"object":"list","data":[...],"first_id","last_id","has_more"} of items already chosen, in their order.
std::string ItemList(const std::vector<Item>& items, bool has_more);

/// An `error` frame. `stream_id` empty = the default lane, no field.
std::string ErrorFrame(const Status& status, const std::string& stream_id, int64_t retry_after_ms = 0);
/// {"type","code","message","param"}, and "retry_after_ms" where waiting helps: what `error` fields hold.
std::string ErrorObject(const Status& status, int64_t retry_after_ms = 0);

/// Members "seq" and "chain" of an object, where anything was recorded.
void WriteRecorded(JsonWriter& json, const JournalPosition& recorded);

class EventWriter {
 public:
  using Push = std::function<void(Frame)>;

  /// `tokenizer` and `model` outlive the writer. `stream_id` empty = no field.
  EventWriter(const Tokenizer& tokenizer, const std::string& model, std::string stream_id, Push push);

  /// Pushes the event's frames, except those that a replay's receiver knows. Deltas of one response may be merged by
  /// the outbox unless they carry logprobs.
  void Write(const TurnEvent& event);
  /// Tells that the response waits for a slot, `position` in line.
  void WriteQueued(const Response& response, int64_t position);

 private:
  void Emit(const Response& response, const char* type, int64_t sequence, const std::string& members);
  void WriteDelta(const TurnEvent& event);
  void WriteOpened(const TurnEvent& event);
  void WriteEnd(const TurnEvent& event);
  void WriteEvicted(const Response& response);
  void WriteSnapshot(const TurnEvent& event);
  std::string Trailer(const Response& response, int64_t sequence) const;

  const Tokenizer& tokenizer_;
  const std::string& model_;
  const std::string stream_id_;
  const Push push_;
  const uint64_t merge_key_;
};

/// Writes an event whose writer pushes into `outbox`: the events of an end, which may all hold the whole answer, count
/// as one.
void WriteEvent(Outbox& outbox, EventWriter& writer, const TurnEvent& event);

}  // namespace ringside
