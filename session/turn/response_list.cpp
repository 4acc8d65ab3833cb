#include "session/turn/response_list.h"

#include <algorithm>

#include "base/limits.h"

namespace ringside {

std::shared_ptr<const Response> SnapshotOf(const std::shared_ptr<Response>& response) {
  if (!response->running() && response->tokens.empty()) return response;
  return std::make_shared<const Response>(*response);
}

void ResponseList::Remove(const std::string& id) {
  std::erase_if(responses_, [&](const std::shared_ptr<Response>& have) { return have->id == id; });
}

std::vector<std::string> ResponseList::Trim() {
  std::vector<std::string> forgotten;
  while (responses_.size() >= static_cast<size_t>(limits::kMaxResponsesPerSession)) {
    forgotten.push_back(responses_.front()->id);
    responses_.pop_front();
  }
  return forgotten;
}

std::vector<std::string> ResponseList::DropAfter(size_t items) {
  std::vector<std::string> undone;
  std::erase_if(responses_, [&](const std::shared_ptr<Response>& response) {
    if (response->items_end <= items) return false;
    undone.push_back(response->id);
    return true;
  });
  return undone;
}

// A pure function of both lists, so that loading gives the same result.
std::vector<std::string> ResponseList::Move(const SharedList<Item>& before, const SharedList<Item>& after) {
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

void ResponseList::DropTokensExceptOf(const Response& newest) {
  for (auto it = responses_.rbegin(); it != responses_.rend(); ++it) {
    if (it->get() == &newest) continue;
    if ((*it)->tokens.empty()) break;
    (*it)->tokens.clear();
    (*it)->tokens.shrink_to_fit();
    (*it)->scored_tokens = 0;
    (*it)->piece_token_ends.clear();
  }
}

void ResponseList::DropTokens() {
  for (const auto& response : responses_) {
    response->tokens.clear();
    response->piece_token_ends.clear();
  }
}

std::optional<size_t> ResponseList::FirstToReplay(const EventNumbers& numbers, const EventCounts& sent,
                                                  uint64_t next) const {
  uint64_t expected = numbers.Of(sent);
  if (expected - next > static_cast<uint64_t>(limits::kMaxReplayedEvents)) return std::nullopt;
  size_t first = responses_.size();
  while (expected > next) {
    if (first == 0) return std::nullopt;
    const Response& response = *responses_[first - 1];
    if (numbers.Of(response.before + response.events()) != expected) return std::nullopt;
    expected = numbers.Of(response.before);
    --first;
  }
  return first;
}

ResponseCopies ResponseList::CopiesFrom(size_t first) const {
  ResponseCopies copies;
  for (size_t i = first; i < responses_.size(); ++i) copies.push_back(SnapshotOf(responses_[i]));
  return copies;
}

std::vector<std::string> ResponseList::ids() const {
  std::vector<std::string> ids;
  for (const auto& response : responses_) ids.push_back(response->id);
  return ids;
}

int64_t ResponseList::bytes() const {
  int64_t bytes = 0;
  for (const auto& response : responses_) bytes += response->bytes();
  return bytes;
}

}  // namespace ringside
