// Requests and results of a search in the texts of messages. Plain values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "session/chat/timeline/timeline.h"

namespace ringside {

// Bounds of one request; the next page continues.
inline constexpr int64_t kMaxSearchedConversations = 256;
inline constexpr size_t kMaxSearchedBytes = 16 << 20;  // of text
inline constexpr size_t kMaxSearchTextBytes = 256;     // of the query
inline constexpr int64_t kMaxSearchesPerOwner = 2;     // concurrent

struct SearchQuery {
  std::string text;   // not empty; compared without regard to case
  std::string after;  // the last conversation of the previous page; "" = from the newest on
  int64_t limit = 20;
};

/// The first message of a conversation that contains the text.
struct SearchMatch {
  std::string session, item_id;
  ChatRole role = ChatRole::kUser;
  std::string before, match, after;  // the excerpt; runs of white space are one blank
};

struct SearchPage {
  std::vector<SearchMatch> matches;  // newest conversation first
  std::string last_id;               // the last conversation searched; "" = none
  bool has_more = false;             // conversations remain
};

}  // namespace ringside
