#include "base/server_overload.h"

#include <fmt/format.h>

#include <charconv>
#include <string_view>

namespace ringside {
namespace {

constexpr std::string_view kWait = "The server is overloaded: this turn would wait for ", kRetry = " s. Retry after ",
                           kEnd = " s.";

template <class Number>
bool ReadPast(std::string_view prefix, std::string_view* text, Number* number) {
  if (!text->starts_with(prefix)) return false;
  text->remove_prefix(prefix.size());
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), *number);
  if (error != std::errc()) return false;
  text->remove_prefix(static_cast<size_t>(end - text->data()));
  return true;
}

}  // namespace

Status ServerOverload::ToStatus() const {
  return Status(StatusCode::kOverloaded, fmt::format("{}{:.2f}{}{}{}", kWait, wait_s, kRetry, retry_after_s, kEnd), "",
                kReason);
}

std::optional<ServerOverload> ReadServerOverload(const Status& status) {
  if (status.reason() != ServerOverload::kReason) return std::nullopt;
  std::string_view text = status.message();
  ServerOverload out;
  if (!ReadPast(kWait, &text, &out.wait_s) || !ReadPast(kRetry, &text, &out.retry_after_s) || text != kEnd) {
    return std::nullopt;
  }
  return out;
}

}  // namespace ringside
