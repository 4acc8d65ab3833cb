// The announced responses of a session, oldest first: limits their number, follows changes of the timeline, and finds
// the events that a resumed connection has missed. Owned by its Session, used under the session's lock.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "session/chat/timeline/timeline.h"
#include "session/event_sink.h"
#include "session/turn/event_numbers.h"
#include "session/turn/response.h"

namespace ringside {

/// The response in its current state. A finished response without tokens is shared instead of copied: only the end of
/// the next response changes a finished one, by dropping its tokens.
std::shared_ptr<const Response> SnapshotOf(const std::shared_ptr<Response>& response);

class ResponseList {
 public:
  void Add(std::shared_ptr<Response> response) { responses_.push_back(std::move(response)); }
  /// Does nothing if there is no such response.
  void Remove(const std::string& id);
  /// Makes room for one more. Returns the removed ids.
  std::vector<std::string> Trim();
  /// The timeline was cut to `items` items: removes the responses after them. Returns the removed ids.
  std::vector<std::string> DropAfter(size_t items);
  /// After a change inside the timeline: adjusts the responses' positions and removes those whose answer is gone.
  /// Returns the removed ids.
  std::vector<std::string> Move(const SharedList<Item>& before, const SharedList<Item>& after);
  /// Drops the tokens of all responses except `newest`, because log probabilities are large.
  void DropTokensExceptOf(const Response& newest);
  /// Drops all tokens: their ids are of another tokenizer.
  void DropTokens();

  /// Index of the first response from which on all events with numbers >= `next`, as the sink counts, are available;
  /// nullopt if some are no longer kept. `sent`: counts of the session's events.
  std::optional<size_t> FirstToReplay(const EventNumbers& numbers, const EventCounts& sent, uint64_t next) const;
  /// Copies of the responses from index `first` on.
  ResponseCopies CopiesFrom(size_t first) const;
  const std::deque<std::shared_ptr<Response>>& all() const { return responses_; }
  std::vector<std::string> ids() const;
  /// Approximate memory.
  int64_t bytes() const;

 private:
  std::deque<std::shared_ptr<Response>> responses_;
};

}  // namespace ringside
