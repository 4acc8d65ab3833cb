// An input that has more tokens than its limit, as a Status. The message has the words of OpenAI's API, by which
// clients recognise an overflow and compact their history. Faces with other words take both numbers from it again. A
// stored Status keeps them. Pure; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/status.h"

namespace ringside {

struct ContextOverflow {
  int64_t limit = 0;      // most tokens
  int64_t tokens = 0;     // of the input
  bool at_least = false;  // tokenising stopped there: the input has `tokens` or more
  bool prompt = false;    // a prompt without a chat template, not messages
  std::string advice;     // a sentence that names the option or the remedy; "" = none

  static constexpr const char* kReason = "context_length_exceeded";

  /// kInvalidArgument with kReason. ReadContextOverflow reads it.
  Status ToStatus(std::string param = "input") const;
};

/// The limit and the tokens of ContextOverflow::ToStatus; nullopt for any other Status, whatever its reason.
std::optional<ContextOverflow> ReadContextOverflow(const Status& status);

}  // namespace ringside
