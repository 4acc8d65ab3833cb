// Append-only list (it can also be truncated) with cheap copies: full blocks are immutable and shared by all copies;
// only the partial last block is copied. A turn can therefore start with a copy of a long history. A value; copies may
// be used on different threads.
#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <iterator>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/check.h"

namespace ringside {

template <class T>
class SharedList {
 public:
  static constexpr size_t kBlock = 256;  // elements

  class Iterator {
   public:
    using iterator_category = std::random_access_iterator_tag;
    using value_type = T;
    using difference_type = std::ptrdiff_t;
    using pointer = const T*;
    using reference = const T&;

    Iterator() = default;
    Iterator(const SharedList* list, size_t at) : list_(list), at_(at) {}
    const T& operator*() const { return (*list_)[at_]; }
    const T* operator->() const { return &(*list_)[at_]; }
    const T& operator[](std::ptrdiff_t n) const { return *(*this + n); }
    Iterator& operator+=(std::ptrdiff_t n) {
      at_ = static_cast<size_t>(static_cast<std::ptrdiff_t>(at_) + n);
      return *this;
    }
    Iterator& operator-=(std::ptrdiff_t n) { return *this += -n; }
    Iterator& operator++() { return *this += 1; }
    Iterator& operator--() { return *this += -1; }
    Iterator operator++(int) { return std::exchange(*this, *this + 1); }
    Iterator operator--(int) { return std::exchange(*this, *this - 1); }
    friend Iterator operator+(Iterator i, std::ptrdiff_t n) { return i += n; }
    friend Iterator operator+(std::ptrdiff_t n, Iterator i) { return i += n; }
    friend Iterator operator-(Iterator i, std::ptrdiff_t n) { return i -= n; }
    friend std::ptrdiff_t operator-(const Iterator& a, const Iterator& b) {
      return static_cast<std::ptrdiff_t>(a.at_) - static_cast<std::ptrdiff_t>(b.at_);
    }
    friend bool operator==(const Iterator& a, const Iterator& b) { return a.at_ == b.at_; }
    friend auto operator<=>(const Iterator& a, const Iterator& b) { return a.at_ <=> b.at_; }

   private:
    const SharedList* list_ = nullptr;
    size_t at_ = 0;
  };
  using value_type = T;
  using const_iterator = Iterator;

  size_t size() const { return blocks_.size() * kBlock + tail_.size(); }
  bool empty() const { return size() == 0; }
  const T& operator[](size_t i) const {
    const size_t block = i / kBlock;
    return block < blocks_.size() ? (*blocks_[block])[i % kBlock] : tail_[i % kBlock];
  }
  const T& back() const { return (*this)[size() - 1]; }
  Iterator begin() const { return {this, 0}; }
  Iterator end() const { return {this, size()}; }

  void push_back(T value) {
    tail_.push_back(std::move(value));
    if (tail_.size() < kBlock) return;
    blocks_.push_back(std::make_shared<const std::vector<T>>(std::move(tail_)));
    tail_.clear();
  }
  void Append(std::vector<T>&& values) {
    for (T& value : values) push_back(std::move(value));
  }
  void Append(std::span<const T> values) {
    for (const T& value : values) push_back(value);
  }
  /// Keeps the first `count` elements, or all if there are fewer.
  void Truncate(size_t count) {
    CHECK_LE(count, size());
    const size_t whole = count / kBlock;
    if (whole < blocks_.size()) {
      tail_ = *blocks_[whole];
      blocks_.resize(whole);
    }
    tail_.erase(tail_.begin() + static_cast<std::ptrdiff_t>(count % kBlock), tail_.end());
  }

  /// Copies the elements from `first` on. The result has room for `more` elements.
  std::vector<T> From(size_t first, size_t more = 0) const {
    std::vector<T> out;
    out.reserve(size() - first + more);
    for (size_t block = first / kBlock; block <= blocks_.size(); ++block) {
      const std::vector<T>& from = block < blocks_.size() ? *blocks_[block] : tail_;
      const size_t skipped = block == first / kBlock ? first % kBlock : 0;
      out.insert(out.end(), from.begin() + static_cast<std::ptrdiff_t>(skipped), from.end());
    }
    return out;
  }
  /// Length of the common prefix. Shared blocks are not compared.
  static size_t CommonPrefix(const SharedList& a, const SharedList& b) {
    const size_t blocks = std::min(a.blocks_.size(), b.blocks_.size());
    size_t shared = 0;
    while (shared < blocks && a.blocks_[shared] == b.blocks_[shared]) ++shared;
    const auto from = static_cast<std::ptrdiff_t>(shared * kBlock);
    return static_cast<size_t>(std::mismatch(a.begin() + from, a.end(), b.begin() + from, b.end()).first - a.begin());
  }
  friend bool operator==(const SharedList& a, const SharedList& b) {
    return a.size() == b.size() && CommonPrefix(a, b) == a.size();
  }

 private:
  std::vector<std::shared_ptr<const std::vector<T>>> blocks_;  // of kBlock elements each
  std::vector<T> tail_;                                        // fewer than kBlock
};

}  // namespace ringside
