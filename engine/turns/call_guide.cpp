#include "engine/turns/call_guide.h"

namespace ringside {
namespace {

constexpr std::string_view kChannel = "<|channel|>", kCommentary = "<|channel|>commentary";

}  // namespace

std::string_view CallGuide::Forced(const ChannelReader& reader) const {
  if (!must_call_) return "";
  if (reader.header().empty()) return kChannel;
  return reader.header() == kCommentary ? " to=" : "";
}

Result<bool> CallGuide::FillMask(const ChannelReader& reader, std::span<uint32_t> mask) const {
  if (must_call_ && reader.header() == kChannel) {
    Allow("analysis", mask);
    Allow("commentary", mask);
    return true;
  }
  const std::optional<std::string_view> begun = reader.recipient();
  if (!begun) return false;
  GrammarMatcher names(recipients_);
  if (!names.Append(*begun).ok()) return false;  // a tool that the model knows by itself
  RETURN_IF_ERROR(names.FillMask(mask));
  if (!names.may_end()) return true;
  for (const std::string_view end :
       {std::string_view(" "), kChannel, std::string_view("<|constrain|>"), std::string_view("<|message|>")}) {
    Allow(end, mask);
  }
  return true;
}

void CallGuide::Allow(std::string_view text, std::span<uint32_t> mask) const {
  const TextPiece piece{std::string(text), /*markup=*/true};
  const std::vector<TokenId> ids = tokenizer_->EncodeAll({&piece, 1});
  const auto id = ids.empty() ? mask.size() * 32 : static_cast<size_t>(ids.front());
  if (id < mask.size() * 32) mask[id / 32] |= 1u << (id % 32);
}

}  // namespace ringside
