// In what form an answer was asked for, and what it may call: what an answer that was cut takes up again when it goes
// on. Plain values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "engine/grammar/answer_format.h"

namespace ringside {

/// Which of the tools an answer calls.
struct ToolChoice {
  enum class Mode : uint8_t { kAuto, kNone, kRequired } mode = Mode::kAuto;
  std::vector<std::string> names;  // these tools only; none = all
  bool several = true;             // more than one call
  bool parallel = false;           // parallel calls were asked for; without it kRequired is one call
  bool takes_several() const { return several && (parallel || mode != Mode::kRequired); }
};

struct AnswerForm {
  AnswerFormat format;  // but for its `calls`, which follow from the choice and the tools
  ToolChoice choice;
};

/// As bytes, which journals hold; "" for any text with any calls.
std::string Encode(const AnswerForm& form);
/// kCorruption for other bytes. Whether a grammar can be made of the format is not looked at.
Result<AnswerForm> DecodeAnswerForm(std::string_view bytes);

}  // namespace ringside
