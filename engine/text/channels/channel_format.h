// The channels of an answer as data: how a family of models marks reasoning, answer and tool calls in what it samples.
// One row per family, completed by what the chat template writes (session/chat/reasoning_settings.h). A plain value,
// immutable once shared; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ringside {

struct ChannelFormat {
  enum class Layout : uint8_t {
    kSpan,      // reasoning, if any, comes first, between two markers; the rest is the answer
    kMessages,  // harmony: messages with a header each, which names the channel
  };
  /// Where sampling begins.
  enum class Start : uint8_t {
    kUndecided,  // reasoning may follow, or the answer
    kReasoning,  // the generation prompt has opened reasoning
    kAnswer,     // the generation prompt has closed it, or there is none
  };

  std::string family;  // of ChannelFamilies()
  Layout layout = Layout::kSpan;
  Start start = Start::kUndecided;
  std::string open, close;                // markers around reasoning
  std::string answer_open, answer_close;  // markers around the answer, both optional; "" = none
  std::string forced_close;               // what a budget writes to end reasoning, markers included
  /// Format in which a call message is written into the answer's text: call_open NAME call_arguments
  /// ARGUMENTS call_close, with call_next in place of call_open where the answer has text already.
  std::string call_open, call_next, call_arguments, call_close;

  friend bool operator==(const ChannelFormat&, const ChannelFormat&) = default;
};

}  // namespace ringside
