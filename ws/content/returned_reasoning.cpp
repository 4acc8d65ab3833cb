#include "ws/content/returned_reasoning.h"

#include "base/base64.h"
#include "engine/text/unicode.h"

namespace ringside {
namespace {

constexpr std::string_view kReasoningPrefix = "ringside.1:";  // never a prefix of another server's base64

}  // namespace

std::string EncodeReasoning(std::string_view text) { return std::string(kReasoningPrefix) + EncodeBase64(text); }

std::optional<std::string> DecodeReasoning(std::string_view opaque) {
  if (!opaque.starts_with(kReasoningPrefix)) return std::nullopt;
  std::optional<std::string> text = DecodeBase64(opaque.substr(kReasoningPrefix.size()));
  if (text && ToValidUtf8(*text) != *text) return std::nullopt;
  return text;
}

void AddReasoning(std::string_view text, NewItem* item) {
  if (!item->reasoning.empty()) item->reasoning += "\n\n";
  item->reasoning += text;
}

}  // namespace ringside
