// Result of a client operation: a value, or a Failure with a complete sentence for the user. Plain values. THREAD: any.
#pragma once

#include <string>
#include <utility>
#include <variant>

namespace ringside::client {

struct Failure {
  std::string message;    // a sentence
  int http_status = 0;    // status of the server's refusal; 0 = no response
  std::string code = {};  // the server's error code ("conversation_busy"), if any
};

/// Value of an operation without a result.
using Done = std::monostate;

/// Either a T or a Failure.
template <class T>
class [[nodiscard]] Outcome {
 public:
  Outcome(T value) : state_(std::in_place_index<0>, std::move(value)) {}            // NOLINT: implicit on purpose
  Outcome(Failure failure) : state_(std::in_place_index<1>, std::move(failure)) {}  // NOLINT

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }
  /// REQUIRES: ok().
  T& operator*() { return std::get<0>(state_); }
  const T& operator*() const { return std::get<0>(state_); }
  T* operator->() { return &std::get<0>(state_); }
  const T* operator->() const { return &std::get<0>(state_); }
  /// REQUIRES: !ok().
  const Failure& failure() const { return std::get<1>(state_); }

 private:
  std::variant<T, Failure> state_;
};

}  // namespace ringside::client
