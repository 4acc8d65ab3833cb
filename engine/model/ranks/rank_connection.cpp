#include "engine/model/ranks/rank_connection.h"

#include <fmt/format.h>

#include <algorithm>

namespace ringside {
namespace {

constexpr uint64_t kMostBytes = uint64_t{1} << 29;
// Memory is allocated as the bytes arrive, not by the announced length.
constexpr uint64_t kPieceBytes = uint64_t{1} << 20;

}  // namespace

void RankConnection::Send(std::string_view message) {
  const uint64_t bytes = message.size();
  SendBytes(&bytes, sizeof(bytes));
  for (uint64_t at = 0; at < bytes; at += kPieceBytes) {
    SendBytes(message.data() + at, std::min(kPieceBytes, bytes - at));
  }
}

Result<std::string> RankConnection::Receive() {
  uint64_t bytes = 0;
  ReceiveBytes(&bytes, sizeof(bytes));
  RETURN_IF_ERROR(status());
  if (bytes > kMostBytes) return Corruption(fmt::format("a message of {} bytes between ranks is too long", bytes));
  std::string message;
  for (uint64_t at = 0; at < bytes; at += kPieceBytes) {
    const uint64_t piece = std::min(kPieceBytes, bytes - at);
    message.resize(at + piece);
    ReceiveBytes(message.data() + at, piece);
    RETURN_IF_ERROR(status());
  }
  return message;
}

}  // namespace ringside
