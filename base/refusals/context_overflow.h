// A context-length error as a Status. The message is worded as in OpenAI's API, because clients recognise an overflow
// by it and compact their history. Other APIs parse both numbers out of the message again, since a stored Status keeps
// only its text. Pure functions. THREAD: any.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/status.h"

namespace ringside {

struct ContextOverflow {
  int64_t limit = 0;      // maximum number of tokens
  int64_t tokens = 0;     // length of the input
  bool at_least = false;  // tokenizing stopped early: `tokens` is a lower bound
  bool prompt = false;    // the input is a raw prompt without a chat template, not messages
  std::string advice;     // a sentence that names the option or the remedy; "" = none

  static constexpr const char* kReason = "context_length_exceeded";

  /// kInvalidArgument with kReason. ReadContextOverflow parses it.
  Status ToStatus(std::string param = "input") const;
};

/// Parses the limit and the token count from a Status of ContextOverflow::ToStatus; nullopt for any other Status,
/// whatever its reason.
std::optional<ContextOverflow> ReadContextOverflow(const Status& status);

}  // namespace ringside
