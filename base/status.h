// Operational errors as values. A function that input, a file or the machine can make fail returns Status or Result<T>;
// our code does not throw. One function in ws/ maps codes to the wire.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "base/check.h"

namespace ringside {

enum class StatusCode {
  kOk,
  kInvalidArgument,  // invalid input; a retry fails too
  kNotFound,         // no such session, response, model, file
  kBusy,             // the requested object is in use
  kOverloaded,       // a bounded resource is full; try again later
  kCancelled,        // cancelled by the caller
  kCorruption,       // damaged data
  kMismatch,         // intact data that belongs to something else
  kIo,               // operating system error
  kUnavailable,      // temporarily unavailable: starting, draining, failed device
};

const char* StatusCodeName(StatusCode code);

/// A code and a message for people and, for the wire, the parameter at fault and the published error code (`reason`,
/// such as "context_length_exceeded"; empty = the default for the code).
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string message, std::string param = "", std::string reason = "")
      : code_(code), message_(std::move(message)), param_(std::move(param)), reason_(std::move(reason)) {}

  static Status Ok() { return {}; }
  bool ok() const { return code_ == StatusCode::kOk; }
  StatusCode code() const { return code_; }
  const std::string& message() const { return message_; }
  const std::string& param() const { return param_; }
  const std::string& reason() const { return reason_; }
  /// "invalid_argument: what went wrong".
  std::string ToString() const;

 private:
  StatusCode code_ = StatusCode::kOk;
  std::string message_, param_, reason_;
};

inline Status InvalidArgument(std::string message, std::string param = "", std::string reason = "") {
  return {StatusCode::kInvalidArgument, std::move(message), std::move(param), std::move(reason)};
}
inline Status NotFound(std::string message, std::string param = "", std::string reason = "") {
  return {StatusCode::kNotFound, std::move(message), std::move(param), std::move(reason)};
}
inline Status Corruption(std::string message) { return {StatusCode::kCorruption, std::move(message)}; }
inline Status Mismatch(std::string message) { return {StatusCode::kMismatch, std::move(message)}; }
inline Status IoError(std::string message) { return {StatusCode::kIo, std::move(message)}; }
inline Status Overloaded(std::string message) { return {StatusCode::kOverloaded, std::move(message)}; }
inline Status Unavailable(std::string message) { return {StatusCode::kUnavailable, std::move(message)}; }

/// A value, or the Status that explains its absence. Reading the value of a failed Result aborts.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}                                 // NOLINT(google-explicit-constructor)
  Result(Status status) : status_(std::move(status)) { CHECK(!status_.ok()); }  // NOLINT(google-explicit-constructor)

  bool ok() const { return status_.ok(); }
  const Status& status() const { return status_; }
  T& value() {
    if (!ok()) CheckFailed(__FILE__, __LINE__, status_.ToString());
    return *value_;
  }
  const T& value() const { return const_cast<Result*>(this)->value(); }
  T& operator*() { return value(); }
  const T& operator*() const { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  Status status_;
  std::optional<T> value_;
};

}  // namespace ringside

#define RINGSIDE_CONCAT_INNER(a, b) a##b
#define RINGSIDE_CONCAT(a, b) RINGSIDE_CONCAT_INNER(a, b)

/// Returns from the enclosing function if `expression` is a failed Status.
#define RETURN_IF_ERROR(expression)                                               \
  do {                                                                            \
    if (::ringside::Status status_ = (expression); !status_.ok()) return status_; \
  } while (false)

/// ASSIGN_OR_RETURN(auto x, F()): x = the value of F(), or return its Status.
#define ASSIGN_OR_RETURN(target, expression) \
  ASSIGN_OR_RETURN_INNER(RINGSIDE_CONCAT(result_, __LINE__), target, expression)
#define ASSIGN_OR_RETURN_INNER(result, target, expression) \
  auto result = (expression);                              \
  if (!result.ok()) return result.status();                \
  target = std::move(result.value())
