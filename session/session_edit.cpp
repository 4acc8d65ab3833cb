// Changes of a session's timeline between turns.
#include <algorithm>

#include "session/image_records.h"
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
  if (journal_.durable()) {
    if (journal_.foreign()) records.push_back(EncodeName(RecordType::kRetokenised, context_->codec_name));
    TimelinePatch patch = next.PatchFrom(conversation_.timeline);
    for (JournalRecord& image : ImageRecords(patch, conversation_.timeline)) records.push_back(std::move(image));
    records.push_back(Encode(TimelineRecord{std::move(patch), truncates}));
  }
  changing_ = true;
  const SharedList<Item> before = conversation_.timeline.items();
  const Status status = Commit(lock, std::move(records), false, [&] {
    conversation_.timeline = std::move(next);
    turns_.listeners().Changed(key_);
    journal_.SetCodec(context_->codec_name);
    conversation_.head.clear();
    std::vector<std::string> dropped = truncates
                                           ? conversation_.responses.DropAfter(conversation_.timeline.items().size())
                                           : conversation_.responses.Move(before, conversation_.timeline.items());
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
  RETURN_IF_ERROR(conversation_.CheckItems(items.size(), "items"));
  size_t at = conversation_.timeline.items().size();
  if (after && after->empty()) at = 0;
  if (after && !after->empty()) {
    const std::optional<size_t> found = IndexOf(conversation_.timeline.items(), *after);
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
  Timeline next = conversation_.timeline;
  if (at == next.items().size()) {
    for (Item& item : added) next.AddItem(std::move(item));
    return ChangeTimeline(lock, std::move(next), false, undone);
  }
  const int64_t tokens = std::ssize(next.tokens()), most = context_->options.max_input_tokens;
  const int64_t room = most > 0 ? most : renderer_.session_len();
  {
    const BusyUnlocked busy(*this, lock);
    RETURN_IF_ERROR(next.Splice(at, removed, std::move(added), context_->codec,
                                std::max(tokens, std::min(renderer_.session_len(), tokens + room))));
  }
  RETURN_IF_ERROR(CheckFree(connection));  // another connection may have resumed the session meanwhile
  return ChangeTimeline(lock, std::move(next), false, undone);
}

Result<std::vector<std::string>> Session::Rewind(uint64_t connection, int64_t items) {
  std::unique_lock lock(mutex_);
  RETURN_IF_ERROR(CheckFree(connection));
  const auto have = static_cast<int64_t>(conversation_.timeline.items().size());
  if (items < 0 || items > have) {
    return InvalidArgument("The conversation has " + std::to_string(have) + " items.", "to", "invalid_value");
  }
  if (items == have) return std::vector<std::string>();  // nothing changes, so nothing is recorded
  return KeepItems(lock, static_cast<size_t>(items));
}

Result<std::vector<std::string>> Session::KeepItems(std::unique_lock<std::mutex>& lock, size_t items) {
  Timeline next = conversation_.timeline;
  next.KeepItems(items);
  std::vector<std::string> undone;
  RETURN_IF_ERROR(ChangeTimeline(lock, std::move(next), true, &undone));
  return undone;
}

Result<std::vector<std::string>> Session::DeleteItem(uint64_t connection, const std::string& item) {
  std::unique_lock lock(mutex_);
  RETURN_IF_ERROR(CheckFree(connection));
  const std::optional<size_t> at = IndexOf(conversation_.timeline.items(), item);
  if (!at) return NoItem(item);
  if (*at + 1 == conversation_.timeline.items().size()) return KeepItems(lock, *at);
  std::vector<std::string> undone;
  RETURN_IF_ERROR(Splice(lock, connection, *at, 1, {}, &undone));
  return undone;
}

Result<std::vector<std::string>> Session::ReplaceItems(uint64_t connection, size_t begin, size_t end, NewItem item) {
  std::unique_lock lock(mutex_);
  RETURN_IF_ERROR(CheckFree(connection));
  if (begin > end || end > conversation_.timeline.items().size()) return Mismatch("The conversation has fewer items.");
  std::vector<std::string> undone;
  RETURN_IF_ERROR(Splice(lock, connection, begin, end - begin, {MakeItem(std::move(item))}, &undone));
  return undone;
}

}  // namespace ringside
