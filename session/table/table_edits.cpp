// Edits of the histories that requests carry.
#include <limits>

#include "base/refusals/context_overflow.h"
#include "session/table/table_state.h"

namespace ringside {

Result<std::vector<AppliedEdit>> SessionTable::EditContext(const Caller& caller, const std::vector<ContextEdit>& edits,
                                                           TurnSpec* spec) {
  const TextTokens tokens = [&](std::string_view text) {
    const TextPiece piece{std::string(text)};
    return std::ssize(tokenizer().EncodeAll({&piece, 1}));
  };
  // Rendering the whole history takes longer than the edit, so a trigger is looked at where there is something to
  // clear.
  std::optional<int64_t> input;
  const auto input_tokens = [&]() -> Result<int64_t> {
    if (input) return *input;
    const Result<int64_t> count = CountInput(caller, *spec);
    if (count.ok()) return *(input = *count);
    if (count.status().reason() != ContextOverflow::kReason) return count.status();
    return *(input = std::numeric_limits<int64_t>::max());  // more than fits
  };
  std::vector<AppliedEdit> all;
  for (size_t i = 0; i < edits.size(); ++i) {
    std::vector<NewItem> items = spec->input;
    AppliedEdit applied = ApplyEdit(edits[i], tokens, &items);
    if (applied.count == 0) continue;
    if (const auto* clear = std::get_if<ClearToolUses>(&edits[i]); clear != nullptr && clear->counts_uses) {
      if (CountToolUses(spec->input) <= clear->trigger) continue;
    } else if (clear != nullptr) {
      ASSIGN_OR_RETURN(const int64_t before, input_tokens());
      if (before <= clear->trigger) continue;
    }
    applied.edit = i;
    spec->input = std::move(items);
    if (input && *input != std::numeric_limits<int64_t>::max()) *input -= applied.tokens;
    all.push_back(applied);
  }
  return all;
}

}  // namespace ringside
