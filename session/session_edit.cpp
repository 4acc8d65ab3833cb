// Changes of a session's timeline between turns.
#include <algorithm>

#include "session/session.h"

namespace ringside {
namespace {

Status NoItem(const std::string& id) {
  return NotFound("No item '" + id.substr(0, 256) + "' in this conversation.", "item_id", "item_not_found");
}

std::optional<size_t> IndexOf(const SharedList<Item>& items, const std::string& id) {
  const auto at = std::find_if(items.begin(), items.end(), [&](const Item& item) { return item.id == id; });
  if (at == items.end()) return std::nullopt;
  return static_cast<size_t>(at - items.begin());
}

}  // namespace

// `next` derives from the current timeline, which must not change until `next` has replaced it.
Status Session::ChangeTimeline(std::unique_lock<std::mutex>& lock, Timeline next, bool truncates,
                               std::vector<std::string>* undone) {
  std::vector<JournalRecord> records;
  if (durable_) {
    if (Foreign()) records.push_back(EncodeRetokenised(context_->codec_name));
    records.push_back(Encode(TimelineRecord{next.PatchFrom(timeline_), truncates}));
  }
  changing_ = true;
  const SharedList<Item> before = timeline_.items();
  const Status status = Commit(lock, std::move(records), false, [&] {
    timeline_ = std::move(next);
    recorded_codec_ = context_->codec_name;
    head_.clear();
    std::vector<std::string> dropped =
        truncates ? DropResponsesAfter(timeline_.items().size()) : MoveResponses(before, timeline_.items());
    if (undone != nullptr) *undone = std::move(dropped);
    CountBytes();
  });
  changing_ = false;
  return status;
}

Result<std::vector<Item>> Session::AddItems(uint64_t connection, std::vector<NewItem> items,
                                            const std::optional<std::string>& after) {
  std::unique_lock lock(mutex_);
  RETURN_IF_ERROR(CheckFree(connection));
  RETURN_IF_ERROR(CheckItems(items.size(), "items"));
  size_t at = timeline_.items().size();
  if (after && after->empty()) at = 0;
  if (after && !after->empty()) {
    const std::optional<size_t> found = IndexOf(timeline_.items(), *after);
    if (!found) return NoItem(*after);
    at = *found + 1;
  }
  std::vector<Item> added;
  for (NewItem& item : items) added.push_back(MakeItem(std::move(item)));
  RETURN_IF_ERROR(Splice(lock, connection, at, 0, added, nullptr));
  return added;
}

Status Session::Splice(std::unique_lock<std::mutex>& lock, uint64_t connection, size_t at, size_t removed,
                       std::vector<Item> added, std::vector<std::string>* undone) {
  Timeline next = timeline_;
  if (at == next.items().size()) {
    for (Item& item : added) next.AddItem(std::move(item));
    return ChangeTimeline(lock, std::move(next), false, undone);
  }
  const int64_t tokens = std::ssize(next.tokens()), most = context_->options.max_input_tokens;
  const int64_t room = most > 0 ? most : SessionLen();
  {
    const BusyUnlocked busy(*this, lock);
    RETURN_IF_ERROR(next.Splice(at, removed, std::move(added), context_->codec,
                                std::max(tokens, std::min(SessionLen(), tokens + room))));
  }
  RETURN_IF_ERROR(CheckFree(connection));  // another connection may have resumed the session meanwhile
  return ChangeTimeline(lock, std::move(next), false, undone);
}

std::vector<std::string> Session::DropResponsesAfter(size_t items) {
  std::vector<std::string> undone;
  std::erase_if(responses_, [&](const std::shared_ptr<Response>& response) {
    if (response->items_end <= items) return false;
    undone.push_back(response->id);
    return true;
  });
  return undone;
}

Result<std::vector<std::string>> Session::Rewind(uint64_t connection, int64_t items) {
  std::unique_lock lock(mutex_);
  RETURN_IF_ERROR(CheckFree(connection));
  const auto have = static_cast<int64_t>(timeline_.items().size());
  if (items < 0 || items > have) {
    return InvalidArgument("The conversation has " + std::to_string(have) + " items.", "to", "invalid_value");
  }
  if (items == have) return std::vector<std::string>();  // nothing changes, so nothing is recorded
  return KeepItems(lock, static_cast<size_t>(items));
}

Result<std::vector<std::string>> Session::KeepItems(std::unique_lock<std::mutex>& lock, size_t items) {
  Timeline next = timeline_;
  next.KeepItems(items);
  std::vector<std::string> undone;
  RETURN_IF_ERROR(ChangeTimeline(lock, std::move(next), true, &undone));
  return undone;
}

Result<std::vector<std::string>> Session::DeleteItem(uint64_t connection, const std::string& item) {
  std::unique_lock lock(mutex_);
  RETURN_IF_ERROR(CheckFree(connection));
  const std::optional<size_t> at = IndexOf(timeline_.items(), item);
  if (!at) return NoItem(item);
  if (*at + 1 == timeline_.items().size()) return KeepItems(lock, *at);
  std::vector<std::string> undone;
  RETURN_IF_ERROR(Splice(lock, connection, *at, 1, {}, &undone));
  return undone;
}

Result<std::vector<std::string>> Session::ReplaceItems(uint64_t connection, size_t begin, size_t end, NewItem item) {
  std::unique_lock lock(mutex_);
  RETURN_IF_ERROR(CheckFree(connection));
  if (begin > end || end > timeline_.items().size()) return Mismatch("The conversation has fewer items.");
  std::vector<std::string> undone;
  RETURN_IF_ERROR(Splice(lock, connection, begin, end - begin, {MakeItem(std::move(item))}, &undone));
  return undone;
}

// A pure function of both lists, so that loading gives the same result.
std::vector<std::string> Session::MoveResponses(const SharedList<Item>& before, const SharedList<Item>& after) {
  std::vector<std::string> undone;
  const size_t shorter = std::min(before.size(), after.size());
  if (before.empty() || (after.size() >= before.size() && after[before.size() - 1].id == before.back().id)) {
    return undone;  // items were only appended
  }
  size_t at = 0;
  while (at < shorter && before[at].id == after[at].id) ++at;
  const size_t removed = before.size() - std::min(before.size(), after.size());
  const auto move = [&](size_t end) {
    return end <= at ? end : end <= at + removed ? at : end + after.size() - before.size();
  };
  std::erase_if(responses_, [&](const std::shared_ptr<Response>& response) {
    const bool answered = response->items_end > response->input_items_end;
    if (answered && response->items_end > at && response->items_end <= at + removed) {
      undone.push_back(response->id);
      return true;
    }
    response->items_before = move(response->items_before);
    response->input_items_end = move(response->input_items_end);
    response->items_end = move(response->items_end);
    return false;
  });
  return undone;
}

}  // namespace ringside
