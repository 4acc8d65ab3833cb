#include "session/turn/turn_spec.h"

#include <algorithm>

namespace ringside {

void AddPart(std::string_view text, NewItem* item) {
  item->part_begins.push_back(item->text.size());
  item->text += text;
}

void JoinParts(std::string_view separator, NewItem* item) {
  const size_t separators = std::max<size_t>(item->part_begins.size(), 1) - 1;
  std::string joined;
  joined.reserve(item->text.size() + separators * separator.size());
  size_t from = 0;
  for (size_t i = 1; i <= separators; ++i) {
    const size_t begin = item->part_begins[i];
    joined.append(item->text, from, begin - from).append(separator);
    from = begin;
  }
  joined.append(item->text, from);
  item->text = std::move(joined);
  if (item->calls_at >= 0) item->calls_at += static_cast<int64_t>(separators * separator.size());
  item->part_begins.clear();
}

}  // namespace ringside
