// The table of model families with channels. Pure. THREAD: any.
#pragma once

#include <string_view>

#include "engine/text/channels/channel_format.h"

namespace ringside {

struct ChannelFamily {
  std::string_view name;
  std::string_view sign;  // a chat template that contains this text belongs to the family; earlier rows take precedence
  ChannelFormat::Layout layout = ChannelFormat::Layout::kSpan;
  std::string_view open, close;
  std::string_view answer_open = {}, answer_close = {}, message_close = {};
  std::string_view forced_close;  // see ChannelFormat
  std::string_view skip;          // appended to a generation prompt to turn reasoning off
};

/// The family of a chat template's Jinja source; null = no channels.
const ChannelFamily* FamilyOfTemplate(std::string_view source);
/// By name; null if unknown.
const ChannelFamily* FamilyByName(std::string_view name);

/// The family's format for an answer that follows `prompt`, the generation prompt.
ChannelFormat FormatAfter(const ChannelFamily& family, std::string_view prompt);

}  // namespace ringside
