#include "base/refusals/context_overflow.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "base/refusals/message_text.h"

namespace ringside {
namespace {

constexpr std::string_view kLimit = "This model's maximum context length is ", kHowever = " tokens. However, your ",
                           kMessages = "messages", kPrompt = "prompt", kResulted = " resulted in ",
                           kAtLeast = "at least ", kTokens = " tokens.";

}  // namespace

Status ContextOverflow::ToStatus(std::string param) const {
  std::string message = fmt::format("{}{}{}{}{}{}{}{}", kLimit, limit, kHowever, prompt ? kPrompt : kMessages,
                                    kResulted, at_least ? kAtLeast : "", tokens, kTokens);
  if (!advice.empty()) message += " " + advice;
  return InvalidArgument(std::move(message), std::move(param), kReason);
}

std::optional<ContextOverflow> ReadContextOverflow(const Status& status) {
  if (status.reason() != ContextOverflow::kReason) return std::nullopt;
  std::string_view text = status.message();
  ContextOverflow out;
  if (!SkipWords(kLimit, &text) || !ReadNumber(&text, &out.limit) || !SkipWords(kHowever, &text)) return std::nullopt;
  out.prompt = SkipWords(kPrompt, &text);
  if ((!out.prompt && !SkipWords(kMessages, &text)) || !SkipWords(kResulted, &text)) return std::nullopt;
  out.at_least = SkipWords(kAtLeast, &text);
  if (!ReadNumber(&text, &out.tokens) || !SkipWords(kTokens, &text)) return std::nullopt;
  if (SkipWords(" ", &text)) out.advice = text;
  return out;
}

}  // namespace ringside
