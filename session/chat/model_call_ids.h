// The ids by which a model knows tool calls, where its syntax has some (Mistral's, Kimi's): those that it has given
// them, or such as follow from the ids that clients know. Walks a timeline once. One thread at a time.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "session/chat/timeline.h"

namespace ringside {

class ModelCallIds {
 public:
  /// The walk begins at items[first]. Where the syntax numbers calls, it counts them from there.
  ModelCallIds(const SharedList<Item>& items, size_t first, ToolSyntaxName syntax);

  /// Of the next item: the ids of its calls or, of a result, of the call that it is of.
  std::vector<std::string> Next(const Item& item);

 private:
  const bool numbered_;            // the ids of the syntax are
  size_t calls_ = 0;               // walked
  std::string answer_;             // the id of the item before the results
  std::vector<std::string> made_;  // of its calls, as the model has written them; "" where it has not
  std::vector<std::pair<std::string, std::string>> numbered_ids_;  // of its calls: public, model's
};

}  // namespace ringside
