// Programmer errors. CHECK aborts the process and prints the failed condition, both values and the source line. For
// anything that input, a file, a peer or the machine can cause, return a Status (base/status.h) instead.
#pragma once

#include <sstream>
#include <string>

namespace ringside {

/// Prints `file:line: CHECK failed: what` to standard error and aborts. Never returns.
[[noreturn]] void CheckFailed(const char* file, int line, const std::string& what);

namespace internal {
template <class A, class B>
std::string DescribeComparison(const char* text, const A& a, const B& b) {
  std::ostringstream out;
  out << text << " (" << a << " vs " << b << ")";
  return out.str();
}
}  // namespace internal
}  // namespace ringside

#define CHECK(condition)                                       \
  do {                                                         \
    if (!(condition)) [[unlikely]]                             \
      ::ringside::CheckFailed(__FILE__, __LINE__, #condition); \
  } while (false)

#define RINGSIDE_CHECK_OP(op, a, b)                                                                           \
  do {                                                                                                        \
    const auto& check_a = (a);                                                                                \
    const auto& check_b = (b);                                                                                \
    if (!(check_a op check_b)) [[unlikely]]                                                                   \
      ::ringside::CheckFailed(__FILE__, __LINE__,                                                             \
                              ::ringside::internal::DescribeComparison(#a " " #op " " #b, check_a, check_b)); \
  } while (false)

#define CHECK_EQ(a, b) RINGSIDE_CHECK_OP(==, a, b)
#define CHECK_NE(a, b) RINGSIDE_CHECK_OP(!=, a, b)
#define CHECK_LT(a, b) RINGSIDE_CHECK_OP(<, a, b)
#define CHECK_LE(a, b) RINGSIDE_CHECK_OP(<=, a, b)
#define CHECK_GT(a, b) RINGSIDE_CHECK_OP(>, a, b)
#define CHECK_GE(a, b) RINGSIDE_CHECK_OP(>=, a, b)
