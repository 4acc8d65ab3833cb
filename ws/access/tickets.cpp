#include "ws/access/tickets.h"

#include <fmt/format.h>

#include "base/hmac.h"

namespace ringside {

Identity TicketBox::RemoveLocked(std::map<std::string, Waiting>::iterator at) {
  Identity identity = std::move(at->second.identity);
  ends_.erase({at->second.ends_ns, at->first});
  waiting_.erase(at);
  const auto share = of_principal_.find(identity.principal);
  share->second.bytes -= identity.session.size();
  bytes_ -= identity.session.size();
  if (--share->second.tickets == 0) of_principal_.erase(share);
  return identity;
}

void TicketBox::DropOldLocked(int64_t now_ns) {
  while (!ends_.empty() && ends_.begin()->first <= now_ns) RemoveLocked(waiting_.find(ends_.begin()->second));
}

Result<std::string> TicketBox::Issue(Identity identity, int64_t seconds) {
  std::string ticket = "ek_";
  const SealKey random = SealKey::Random();
  for (const char byte : random.bytes()) ticket += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  identity.scopes = Scopes::Chat();
  const int64_t now_ns = clock_.MonotonicNs();
  std::lock_guard lock(mutex_);
  DropOldLocked(now_ns);
  Share& share = of_principal_[identity.principal];
  const size_t bytes = identity.session.size();
  if (share.tickets >= kMostOfOneOwner || ends_.size() >= kMost || share.bytes + bytes > kBytesOfOneOwner ||
      bytes_ + bytes > kMostBytes) {
    if (share.tickets == 0) of_principal_.erase(identity.principal);
    return Status(StatusCode::kOverloaded, "Too many tickets are waiting to be used.", "", "rate_limit_exceeded");
  }
  ++share.tickets;
  share.bytes += bytes;
  bytes_ += bytes;
  const int64_t ends_ns = now_ns + seconds * 1'000'000'000;
  std::string code = HmacSha256(key_, ticket);
  ends_.emplace(ends_ns, code);
  waiting_.emplace(std::move(code), Waiting{std::move(identity), ends_ns});
  return ticket;
}

std::optional<Identity> TicketBox::Take(std::string_view ticket) {
  const std::string code = HmacSha256(key_, ticket);
  std::lock_guard lock(mutex_);
  DropOldLocked(clock_.MonotonicNs());
  const auto at = waiting_.find(code);
  if (at == waiting_.end()) return std::nullopt;
  return RemoveLocked(at);
}

}  // namespace ringside
