// What lies behind SessionTable: the maps and their look-ups. The mutex guards the maps only and is never held while a
// session's lock is taken or the engine is called.
#pragma once

#include <deque>
#include <map>
#include <mutex>
#include <unordered_map>

#include "session/deferred_work.h"
#include "session/session.h"
#include "session/session_table.h"

namespace ringside {

Status NoConversation(const std::string& id);
Status NoResponse(const std::string& id);

struct SessionTable::State {
  struct Entry {
    std::shared_ptr<Session> session;
    std::shared_ptr<Response> response;
    std::string request_key;
  };
  using OwnersSessions = std::map<uint64_t, std::shared_ptr<Session>>;  // by creation

  State(SessionTableOptions options, const Tokenizer& tokenizer, const ChatTemplate& chat, EngineDoor engine,
        const Clock& clock);

  const std::shared_ptr<const SessionContext> context;
  const EngineDoor door;

  // Look-ups only. Never held while a session's lock is taken.
  std::mutex mutex;
  std::unordered_map<std::string, std::pair<uint64_t, std::shared_ptr<Session>>> sessions;  // "conv_..."
  std::unordered_map<std::string, OwnersSessions> owners;
  uint64_t next_ordinal = 0;
  std::unordered_map<std::string, Entry> responses;  // "resp_..."
  std::deque<std::string> response_order;            // oldest first; ids forgotten earlier may linger
  std::unordered_map<std::string, std::string> request_keys;
  std::unordered_map<uint64_t, std::vector<std::string>> local_responses;  // by connection

  DeferredWork work;

  /// The caller's conversation; nullptr if there is none of this id.
  std::shared_ptr<Session> Find(const Caller& caller, const std::string& id);
  /// A response that the caller may see.
  std::optional<Entry> FindResponse(const Caller& caller, const std::string& id);
  Status AddSession(const std::shared_ptr<Session>& session);
  /// Under the mutex.
  void ForgetLocked(const std::string& id);
  void Forget(const std::vector<std::string>& ids);
  /// The response that the entry's request key stands for already, or the entry's own from now on.
  std::string Register(Entry entry);
  /// The response of an earlier request with this key; "" if there is none.
  std::string FindRequest(const std::string& key);
  /// Forgets the oldest responses while there are too many, or more than their memory. kOverloaded if that is not
  /// enough.
  Status MakeRoom();

  // Where a turn runs.
  struct Target {
    std::shared_ptr<Session> session;
    std::string head;                       // the response that it must still end with
    TimelineId fork_from = 0, fork_to = 0;  // caches to copy
    std::shared_ptr<Session> parent;        // of `head`, to fork from if it went on
    size_t parent_items = 0;
  };
  Result<Target> FindTarget(const Caller& caller, const TurnSpec& spec);
  Status ForkTarget(const Caller& caller, Target* target);
  std::shared_ptr<Session> NewChain(const Caller& caller, const WindowOverrides& window) {
    return std::make_shared<Session>(context, "", caller.principal, Metadata{}, window);
  }
  Status CheckWindow(const WindowOverrides& window) const;
  Result<TurnTicket> Reattach(const Caller& caller, const std::string& id, const std::shared_ptr<EventSink>& sink);
  Result<Session::Prepared> Begin(const Caller& caller, const TurnSpec& spec, Target* target, TurnId turn,
                                  const std::shared_ptr<Response>& response, const std::shared_ptr<EventSink>& sink);
  Result<SessionInfo> AddFork(const Caller& caller, const Session& from, std::optional<int64_t> items);
};

}  // namespace ringside
