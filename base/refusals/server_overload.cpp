#include "base/refusals/server_overload.h"

#include <fmt/format.h>

#include <string_view>

#include "base/refusals/message_text.h"

namespace ringside {
namespace {

constexpr std::string_view kWait = "The server is overloaded: this turn would wait for ", kRetry = " s. Retry after ",
                           kEnd = " s.";

}  // namespace

Status ServerOverload::ToStatus() const {
  return Status(StatusCode::kOverloaded, fmt::format("{}{:.2f}{}{}{}", kWait, wait_s, kRetry, retry_after_s, kEnd), "",
                kReason);
}

std::optional<ServerOverload> ReadServerOverload(const Status& status) {
  if (status.reason() != ServerOverload::kReason) return std::nullopt;
  std::string_view text = status.message();
  ServerOverload out;
  if (!SkipWords(kWait, &text) || !ReadNumber(&text, &out.wait_s)) return std::nullopt;
  if (!SkipWords(kRetry, &text) || !ReadNumber(&text, &out.retry_after_s) || text != kEnd) return std::nullopt;
  return out;
}

}  // namespace ringside
