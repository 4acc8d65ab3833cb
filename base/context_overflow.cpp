#include "base/context_overflow.h"

#include <fmt/format.h>

#include <charconv>
#include <string_view>
#include <utility>

namespace ringside {
namespace {

constexpr std::string_view kLimit = "This model's maximum context length is ", kHowever = " tokens. However, your ",
                           kMessages = "messages", kPrompt = "prompt", kResulted = " resulted in ",
                           kAtLeast = "at least ", kTokens = " tokens.";

bool Skip(std::string_view prefix, std::string_view* text) {
  if (!text->starts_with(prefix)) return false;
  text->remove_prefix(prefix.size());
  return true;
}

bool ReadNumber(std::string_view* text, int64_t* number) {
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), *number);
  if (error != std::errc()) return false;
  text->remove_prefix(static_cast<size_t>(end - text->data()));
  return true;
}

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
  if (!Skip(kLimit, &text) || !ReadNumber(&text, &out.limit) || !Skip(kHowever, &text)) return std::nullopt;
  out.prompt = Skip(kPrompt, &text);
  if ((!out.prompt && !Skip(kMessages, &text)) || !Skip(kResulted, &text)) return std::nullopt;
  out.at_least = Skip(kAtLeast, &text);
  if (!ReadNumber(&text, &out.tokens) || !Skip(kTokens, &text)) return std::nullopt;
  if (Skip(" ", &text)) out.advice = text;
  return out;
}

}  // namespace ringside
