#include "clients/terminal/line_buffer.h"

#include <algorithm>

#include "clients/terminal/text_width.h"

namespace ringside::client {
namespace {

bool IsBlank(char c) { return c == ' ' || c == '\t' || c == '\n'; }

/// Word characters for word motions: letters, digits, underscore and everything beyond ASCII.
bool IsWordByte(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte >= 0x80 || (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
         byte == '_';
}

}  // namespace

void LineBuffer::Set(std::string text) {
  text_ = std::move(text);
  cursor_ = text_.size();
}

void LineBuffer::Insert(std::string_view text) {
  text_.insert(cursor_, text);
  cursor_ += text.size();
  // The new text may have joined the next cluster.
  const size_t home = LineBegin();
  size_t border = home;
  while (border < cursor_) border += FirstCluster(std::string_view(text_).substr(border));
  cursor_ = border;
}

void LineBuffer::MoveLeft() { cursor_ -= LastCluster(std::string_view(text_).substr(0, cursor_)); }

void LineBuffer::MoveRight() { cursor_ += FirstCluster(std::string_view(text_).substr(cursor_)); }

size_t LineBuffer::WordLeft() const {
  size_t at = cursor_;
  while (at > 0 && !IsWordByte(text_[at - 1])) --at;
  while (at > 0 && IsWordByte(text_[at - 1])) --at;
  return at;
}

size_t LineBuffer::WordRight() const {
  size_t at = cursor_;
  while (at < text_.size() && !IsWordByte(text_[at])) ++at;
  while (at < text_.size() && IsWordByte(text_[at])) ++at;
  return at;
}

void LineBuffer::MoveWordLeft() { cursor_ = WordLeft(); }

void LineBuffer::MoveWordRight() { cursor_ = WordRight(); }

size_t LineBuffer::LineBegin() const {
  const size_t newline = cursor_ == 0 ? std::string::npos : text_.rfind('\n', cursor_ - 1);
  return newline == std::string::npos ? 0 : newline + 1;
}

size_t LineBuffer::LineEnd() const { return std::min(text_.find('\n', cursor_), text_.size()); }

void LineBuffer::MoveHome() { cursor_ = LineBegin(); }

void LineBuffer::MoveEnd() { cursor_ = LineEnd(); }

size_t LineBuffer::AtColumn(size_t begin, size_t end, int column) const {
  size_t at = begin;
  while (at < end && column > 0) {
    const size_t bytes = FirstCluster(std::string_view(text_).substr(at));
    column -= ClusterWidth(std::string_view(text_).substr(at, bytes));
    at += bytes;
  }
  return std::min(at, end);
}

bool LineBuffer::MoveUp() {
  const size_t begin = LineBegin();
  if (begin == 0) return false;
  const int column = TextWidth(std::string_view(text_).substr(begin, cursor_ - begin));
  cursor_ = begin - 1;
  cursor_ = AtColumn(LineBegin(), begin - 1, column);
  return true;
}

bool LineBuffer::MoveDown() {
  const size_t end = LineEnd();
  if (end == text_.size()) return false;
  const int column = TextWidth(std::string_view(text_).substr(LineBegin(), cursor_ - LineBegin()));
  cursor_ = end + 1;
  cursor_ = AtColumn(cursor_, LineEnd(), column);
  return true;
}

void LineBuffer::DeleteLeft() {
  const size_t bytes = LastCluster(std::string_view(text_).substr(0, cursor_));
  cursor_ -= bytes;
  text_.erase(cursor_, bytes);
}

void LineBuffer::DeleteRight() { text_.erase(cursor_, FirstCluster(std::string_view(text_).substr(cursor_))); }

void LineBuffer::Kill(size_t begin, size_t end) {
  if (begin == end) return;
  killed_ = text_.substr(begin, end - begin);
  text_.erase(begin, end - begin);
  cursor_ = begin;
}

void LineBuffer::KillToEnd() {
  const size_t end = LineEnd();
  Kill(cursor_, end == cursor_ && end < text_.size() ? end + 1 : end);
}

void LineBuffer::KillToHome() { Kill(LineBegin(), cursor_); }

void LineBuffer::KillWordLeft() {
  size_t begin = cursor_;
  while (begin > 0 && IsBlank(text_[begin - 1])) --begin;
  while (begin > 0 && !IsBlank(text_[begin - 1])) --begin;
  Kill(begin, cursor_);
}

void LineBuffer::KillWordRight() { Kill(cursor_, WordRight()); }

}  // namespace ringside::client
