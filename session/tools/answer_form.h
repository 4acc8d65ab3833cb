// The requested form of an answer and the tools that it may call, kept so that a cut answer can continue. Plain values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "engine/grammar/answer_format.h"

namespace ringside {

/// The tools that an answer calls.
struct ToolChoice {
  enum class Mode : uint8_t { kAuto, kNone, kRequired } mode = Mode::kAuto;
  std::vector<std::string> names;  // only these tools; empty = all
  bool several = true;             // more than one call is allowed
  bool parallel = false;           // parallel calls were requested; otherwise kRequired means one call
  bool takes_several() const { return several && (parallel || mode != Mode::kRequired); }
};

struct AnswerForm {
  AnswerFormat format;  // except its `calls`, which follow from the choice and the tools
  ToolChoice choice;
};

/// Encodes the form for the journal; "" for any text with any calls.
std::string Encode(const AnswerForm& form);
/// ERRORS: kCorruption for invalid bytes. Does not check whether the format has a grammar.
Result<AnswerForm> DecodeAnswerForm(std::string_view bytes);

}  // namespace ringside
