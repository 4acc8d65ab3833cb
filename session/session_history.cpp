// Look-up of sessions for stateless requests, by their history.
#include <algorithm>

#include "session/history_text.h"
#include "session/session.h"

namespace ringside {

void Session::FindByHistory() {
  std::lock_guard lock(mutex_);
  found_by_history_ = true;
}

Session::HistoryLabel Session::LabelOfHistory() const {
  std::lock_guard lock(mutex_);
  const Timeline& timeline = turns_.running() ? turns_.running()->next : conversation_.timeline;
  const SharedList<Item>& items = timeline.items();
  const auto is_answer = [](const Item& item) { return item.role == ChatRole::kAssistant; };
  const auto answer = std::find_if(items.begin(), items.end(), is_answer);
  return {timeline_key_, answer != items.end() && answer + 1 != items.end()};
}

std::string Session::History() const {
  std::lock_guard lock(mutex_);
  const Timeline& timeline = turns_.running() ? turns_.running()->next : conversation_.timeline;
  std::string text;
  if (embeds_) return text;
  AppendModel(conversation_.model, &text);
  AppendAdapter(turns_.running() ? turns_.running()->response->adapter : conversation_.adapter, &text);
  AppendWindow(renderer_.window(), &text);
  if (timeline.raw()) {
    AppendTokens(timeline.tokens().From(0), &text);
    return text;
  }
  AppendHead(timeline.head().instructions, timeline.head().tools, &text);
  for (const Item& item : timeline.items()) {
    AppendMessage(item.role, item.text, item.calls_at, &text);
    AppendImages(item.images, &text);
  }
  return text;
}

std::optional<Session::HistoryMatch> Session::MatchHistory(const TurnSpec& spec) const {
  std::lock_guard lock(mutex_);
  HistoryMatch match;
  match.head = conversation_.head;
  const Timeline& timeline = turns_.running() ? turns_.running()->next : conversation_.timeline;
  if (conversation_.model != spec.model) return std::nullopt;
  if ((turns_.running() ? turns_.running()->response->adapter : conversation_.adapter) != spec.adapter.value_or(""))
    return std::nullopt;
  const WindowOverrides& asked = spec.window;
  if (renderer_.window().memory_len != asked.memory_len || renderer_.window().session_len != asked.session_len ||
      renderer_.window().eviction != asked.eviction) {
    return std::nullopt;
  }
  if (timeline.head().instructions != spec.instructions) return match;  // the engine compares ids
  if (spec.raw) {                                                       // the engine compares ids itself
    const SharedList<TokenId>& ids = timeline.tokens();
    match.continues = !turns_.running() && !changing_ && ids.size() <= spec.raw->tokens.size() &&
                      std::equal(ids.begin(), ids.end(), spec.raw->tokens.begin());
    return match;
  }
  const SharedList<Item>& items = timeline.items();
  size_t most = std::min(items.size(), spec.input.size());
  // An answer at the end of the request is not the one to continue: it is rendered, and a new one starts.
  if (most > 0 && most == spec.input.size() && spec.input.back().role == ChatRole::kAssistant) --most;
  const auto same = [&](size_t i) {
    const Item& item = items[i];
    const NewItem& asked = spec.input[i];
    const bool same_images = std::ranges::equal(item.images, asked.images, {}, {}, &NewImage::image);
    if (!same_images || item.role != asked.role || (asked.reasoning_cleared && item.reasoning.size() > 0)) return false;
    if (item.calls_at < 0 || asked.calls_at < 0) return item.calls_at == asked.calls_at && item.text == asked.text;
    return ComparableText(item.text, item.calls_at) == ComparableText(asked.text, asked.calls_at);
  };
  while (match.items < most && same(match.items)) ++match.items;
  match.continues = !turns_.running() && !changing_ && match.items == items.size();
  match.timeline = timeline;
  match.timeline.KeepItems(match.items);
  return match;
}

}  // namespace ringside
