// Search in the texts of an owner's messages. A request reads a bounded number of conversations and of bytes, and ends
// when its client leaves; the caller continues with the next page. Reading charges the owner as any other load does.
#include <algorithm>

#include "base/request_watch.h"
#include "base/worker_pool.h"
#include "engine/text/unicode.h"
#include "engine/text/unicode_case.h"
#include "session/table/table_state.h"

namespace ringside {
namespace {

constexpr size_t kBefore = 48, kAfter = 120;  // bytes of an excerpt around the match, about
constexpr size_t kLongScan = 64 << 10;        // more bytes are scanned by RunLongWork
constexpr size_t kRoomEvery = 16;             // conversations between two checks of the owner's memory

/// The byte of `text` at whose character its lower-case form reaches `lower_at` bytes.
size_t OriginalOffset(std::string_view text, size_t lower_at) {
  size_t at = 0, lower = 0;
  std::string one;
  while (at < text.size() && lower < lower_at) {
    const CodePoint c = FirstCodePoint(text.substr(at));
    one.clear();
    AppendLower(c.value, &one);
    lower += one.size();
    at += c.length;
  }
  return at;
}

bool Continues(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

/// `text` with each run of white space as one blank.
std::string Flat(std::string_view text) {
  std::string flat;
  for (const char c : text) {
    const bool blank = c == ' ' || (c >= '\t' && c <= '\r');
    if (!blank) flat += c;
    if (blank && !flat.ends_with(' ')) flat += ' ';
  }
  return flat;
}

/// Fills the excerpt if the text contains `wanted`, which is in lower case.
bool FindIn(std::string_view text, const std::string& wanted, SearchMatch* match) {
  const std::string lower = ToLower(text);
  const size_t found = lower.find(wanted);
  if (found == std::string::npos) return false;
  const size_t begin = OriginalOffset(text, found), end = OriginalOffset(text, found + wanted.size());
  size_t from = begin > kBefore ? begin - kBefore : 0;
  while (from < begin && Continues(text[from])) ++from;
  size_t to = std::min(end + kAfter, text.size());
  while (to < text.size() && Continues(text[to])) ++to;
  match->before = (from > 0 ? "…" : "") + Flat(text.substr(from, begin - from));
  match->match = Flat(text.substr(begin, end - begin));
  match->after = Flat(text.substr(end, to - end)) + (to < text.size() ? "…" : "");
  return true;
}

/// The first message with the text. Stops when the client has left.
std::optional<SearchMatch> FindInItems(const SharedList<Item>& items, const std::string& wanted,
                                       const RequestWatch* watch) {
  SearchMatch match;
  for (const Item& item : items) {
    if (watch != nullptr && watch->client_left()) return std::nullopt;
    if (item.role == ChatRole::kSystem || !FindIn(item.text, wanted, &match)) continue;
    match.item_id = item.id;
    match.role = item.role;
    return match;
  }
  return std::nullopt;
}

size_t TextBytesOf(const SharedList<Item>& items) {
  size_t bytes = 0;
  for (const Item& item : items) bytes += item.text.size();
  return bytes;
}

/// A place among the owner's searches, given back with the last reference. `turns`: State::turns. kOverloaded.
template <class Turns>
Result<std::shared_ptr<void>> TakeSearchPlace(const std::shared_ptr<Turns>& turns, const std::string& owner) {
  std::lock_guard lock(turns->mutex);
  int64_t& count = turns->searches_by_owner[owner];
  if (count >= kMaxSearchesPerOwner) {
    return Status(StatusCode::kOverloaded, "Too many of your searches are running.", "", "rate_limit_exceeded");
  }
  ++count;
  return std::shared_ptr<void>(nullptr, [turns, owner](void*) {
    std::lock_guard give_back(turns->mutex);
    const auto at = turns->searches_by_owner.find(owner);
    if (--at->second == 0) turns->searches_by_owner.erase(at);
  });
}

}  // namespace

Result<SearchPage> SessionTable::Search(const Caller& caller, const SearchQuery& query) {
  CHECK_GE(query.limit, 1);
  if (ToValidUtf8(query.text) != query.text) {  // unlike a body's texts, a query's may be any bytes
    return InvalidArgument("'query' is not valid UTF-8.", "query", "invalid_value");
  }
  ASSIGN_OR_RETURN(const std::shared_ptr<void> place, TakeSearchPlace(state_->turns, caller.principal));
  const std::string wanted = ToLower(query.text);
  SearchPage page;
  ASSIGN_OR_RETURN(const std::vector<std::string> ids,
                   ListIds(caller.principal, query.after, kMaxSearchedConversations, &page.has_more));
  size_t bytes = 0, seen = 0;
  for (const std::string& id : ids) {
    if (RequestWatch::ClientLeft()) return Status(StatusCode::kCancelled, "The client left.");
    const bool full = std::ssize(page.matches) >= query.limit || bytes >= kMaxSearchedBytes;
    if (full) {
      page.has_more = true;
      break;
    }
    if (seen++ % kRoomEvery == 0) RETURN_IF_ERROR(state_->MakeRoom(caller.principal));
    const auto session = state_->Get(id, caller.principal, State::Use::kRead);
    if (!session.ok() && session.status().code() == StatusCode::kUnavailable) return session.status();
    page.last_id = id;
    if (!session.ok()) continue;  // deleted meanwhile, or damaged
    const SharedList<Item> items = (*session)->Items();
    const size_t size = TextBytesOf(items);
    bytes += size;
    std::optional<SearchMatch> match;
    const RequestWatch* watch = RequestWatch::Current();
    const auto scan = [&] { match = FindInItems(items, wanted, watch); };
    if (size < kLongScan) scan();
    if (size >= kLongScan) RETURN_IF_ERROR(RunLongWork(scan));
    if (!match) continue;
    match->session = id;
    page.matches.push_back(std::move(*match));
  }
  return page;
}

}  // namespace ringside
