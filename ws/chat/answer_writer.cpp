#include "ws/chat/answer_writer.h"

#include <algorithm>

namespace ringside {

AnswerUsage UsageOf(const Response& response) {
  return {.input = response.input_tokens,
          .cached = std::min(response.report.tokens_reused, response.input_tokens),
          .output = response.output_tokens,
          .reasoning = response.reasoning_tokens};
}

AnswerUsage UsageOf(const EndedChoices& choices, int64_t per_prompt) {
  AnswerUsage sum;
  for (size_t i = 0; i < choices.size(); ++i) {
    const AnswerUsage usage = UsageOf(*choices[i]);
    sum.output += usage.output;
    sum.reasoning += usage.reasoning;
    if (static_cast<int64_t>(i) % per_prompt != 0) continue;
    sum.input += usage.input;
    sum.cached += usage.cached;
  }
  return sum;
}

bool IsCut(const Response& response) { return response.reason != FinishReason::kStop; }

bool HasText(const Response& response) {
  return response.opened || (response.call_steps.empty() && response.reasoning_ends.empty());
}

bool IsFull(const Response& response) { return response.reason == FinishReason::kSessionFull; }

std::string_view RepetitionReason(const Response& response) {
  return response.reason == FinishReason::kRepetition ? kRepetition : "";
}

size_t CountCharacters(std::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

}  // namespace ringside
