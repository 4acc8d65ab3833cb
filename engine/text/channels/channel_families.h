// The families of models whose answers have channels, as a table. Pure; any thread.
#pragma once

#include <string_view>

#include "engine/text/channels/channel_format.h"

namespace ringside {

struct ChannelFamily {
  std::string_view name;
  std::string_view sign;  // a chat template with this text is the family's; earlier rows first
  ChannelFormat::Layout layout = ChannelFormat::Layout::kSpan;
  std::string_view open, close;
  std::string_view answer_open = {}, answer_close = {};
  std::string_view forced_close;  // as of ChannelFormat
  std::string_view skip;          // appended to a generation prompt to turn reasoning off
};

/// The family of a chat template's Jinja source; null = it has no channels.
const ChannelFamily* FamilyOfTemplate(std::string_view source);
/// By name; null for another.
const ChannelFamily* FamilyByName(std::string_view name);

/// The family's format where sampling begins after `prompt`, the generation prompt.
ChannelFormat FormatBehind(const ChannelFamily& family, std::string_view prompt);

}  // namespace ringside
