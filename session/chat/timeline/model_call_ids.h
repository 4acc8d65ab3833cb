// Derives the model's ids of tool calls for syntaxes with ids (Mistral, Kimi): the ids that the model wrote, or ids
// derived from the public ones. Iterates over a timeline once.
// THREAD: one at a time.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "session/chat/timeline/timeline.h"

namespace ringside {

class ModelCallIds {
 public:
  /// Starts at items[first]. If the syntax numbers calls, counting starts there.
  ModelCallIds(const SharedList<Item>& items, size_t first, ToolSyntaxName syntax);

  /// For the next item: the ids of its calls or, for a result, of its call.
  std::vector<std::string> Next(const Item& item);

 private:
  const bool numbered_;            // the syntax numbers calls
  size_t calls_ = 0;               // calls seen so far
  std::string answer_;             // id of the item before the results
  std::vector<std::string> made_;  // ids of its calls as written by the model; "" if there are none
  std::vector<std::pair<std::string, std::string>> numbered_ids_;  // of its calls: public id, model's id
};

}  // namespace ringside
