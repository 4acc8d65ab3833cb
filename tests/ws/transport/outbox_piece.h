// An outbox entry for tests: messages that are written on demand, and may merge with others.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <utility>

#include "ws/transport/outbox.h"

namespace ringside::testing {

/// "<text>"; pieces with the same nonzero key may be merged.
class Piece final : public OutboxEntry {
 public:
  static std::unique_ptr<Piece> Make(std::string text, uint64_t key) {
    return std::make_unique<Piece>(std::move(text), key);
  }
  Piece(std::string text, uint64_t key) : text_(std::move(text)), key_(key) {}
  std::string Next() override {
    done_ = true;
    return '<' + text_ + '>';
  }
  bool done() const override { return done_; }
  size_t bytes() const override { return text_.size() + 2; }
  uint64_t merge_key() const override { return key_; }
  void Absorb(OutboxEntry& newer) override { text_ += static_cast<Piece&>(newer).text_; }

 private:
  std::string text_;
  const uint64_t key_;
  bool done_ = false;
};

/// Many messages at once.
class Bulk final : public OutboxEntry {
 public:
  Bulk(size_t messages, size_t bytes_each) : left_(messages), bytes_each_(bytes_each) {}
  std::string Next() override {
    --left_;
    return std::string(bytes_each_, 'b');
  }
  bool done() const override { return left_ == 0; }
  size_t bytes() const override { return left_ * bytes_each_; }
  bool bulk() const override { return true; }

 private:
  size_t left_;
  const size_t bytes_each_;
};

}  // namespace ringside::testing
