#include "ws/transport/socket/socket_input.h"

namespace ringside {
namespace {

constexpr size_t kKeptBufferBytes = 256 << 10;
// Reads per message: this many are free; beyond them each must bring a minimum. Where the stream is cut is not the
// peer's choice, so a frame of twice the minimum is accepted even if it arrives in two reads.
constexpr int64_t kFreePieces = 1024;
constexpr int64_t kLeastPieceBytes = 32;

}  // namespace

bool SocketInput::CountPiece() {
  ++pieces_;
  return pieces_ <= kFreePieces + static_cast<int64_t>(buffer_.size()) / kLeastPieceBytes;
}

void SocketInput::QueueMessage() {
  const auto data = buffer_.data();
  waiting_.push_back(std::make_shared<const std::string>(static_cast<const char*>(data.data()), data.size()));
  waiting_bytes_ += data.size();
  pieces_ = 0;
  buffer_.consume(buffer_.size());
  // Releases the memory of a large message instead of keeping it for the life of the socket.
  if (buffer_.capacity() > kKeptBufferBytes) buffer_ = boost::beast::flat_buffer();
}

void SocketInput::Pop() {
  working_bytes_ = waiting_.front()->size();
  waiting_bytes_ -= working_bytes_;
  waiting_.pop_front();
}

void SocketInput::EndWork(const std::string& owner) {
  working_bytes_ = 0;
  (void)Charge(owner);  // never fails: less than before
}

}  // namespace ringside
