// The channels of an answer as data: how a family marks reasoning, answer and tool calls. One row per family, completed
// from the chat template (session/chat/templates/reasoning_settings.h). A plain value, immutable once shared. THREAD:
// any.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ringside {

struct ChannelFormat {
  enum class Layout : uint8_t {
    kSpan,      // optional reasoning between two markers, then the answer
    kMessages,  // harmony: messages whose headers name the channel
  };
  /// The channel at the start of sampling.
  enum class Start : uint8_t {
    kUndecided,  // reasoning or the answer may follow
    kReasoning,  // the generation prompt has opened reasoning
    kAnswer,     // the generation prompt has closed it, or there is none
  };

  std::string family;  // see ChannelFamilies()
  Layout layout = Layout::kSpan;
  Start start = Start::kUndecided;
  std::string open, close;                // markers around reasoning
  std::string answer_open, answer_close;  // optional markers around the answer; "" = none
  std::string message_close;              // marker after the answer's; "" = none
  std::string forced_close;               // appended when a budget ends reasoning, markers included
  /// How a call message is written into the answer's text: call_open NAME call_arguments ARGUMENTS call_close, with
  /// call_next in place of call_open if the answer already has text.
  std::string call_open, call_next, call_arguments, call_close;

  friend bool operator==(const ChannelFormat&, const ChannelFormat&) = default;
};

}  // namespace ringside
