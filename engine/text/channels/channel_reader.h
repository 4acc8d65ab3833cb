// Splits sampled text into reasoning and answer, incrementally. The result does not depend on how the text is split
// into parts. One per answer. THREAD: one at a time.  White space next to a reasoning marker is markup: at both ends of
// the reasoning, and between it and the answer. The indentation of the answer's first line belongs to the answer.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "engine/text/channels/channel_format.h"

namespace ringside {

/// The text that a part adds to each channel; reasoning comes first.
struct ChannelParts {
  std::string reasoning, text;
};

class ChannelReader {
 public:
  /// REQUIRES: `format` is not null.
  explicit ChannelReader(std::shared_ptr<const ChannelFormat> format);

  /// Processes text.
  ChannelParts Push(std::string_view text);
  /// Processes a special token without text, by its spelling. No effect if it is not a marker of the format.
  ChannelParts PushSpecial(std::string_view name);
  /// Ends the text. Returns held-back text, which is not a marker.
  ChannelParts Finish();
  /// Marks held-back text as already shown by an earlier Finish, so that it is not shown again.
  void ForgetHeld();
  /// Everything from now on is the answer, from its first byte. REQUIRES: in_answer() or undecided().
  void BeginAnswer();

  /// True until the channel of the text is known.
  bool undecided() const { return state_ == State::kUndecided; }
  /// True inside reasoning; false in a message's header.
  bool in_reasoning() const { return state_ == State::kReasoning; }
  /// True inside the answer, calls included.
  bool in_answer() const { return state_ == State::kLead || state_ == State::kAnswer || state_ == State::kCall; }
  /// True inside a call's arguments.
  bool in_call() const { return state_ == State::kCall; }
  /// kMessages: the header so far, special tokens by their spelling; "" outside one.
  std::string_view header() const { return state_ == State::kHeader ? header_ : std::string_view(); }
  bool in_header() const { return state_ == State::kHeader; }
  /// The recipient in an open header, which may continue; nullopt where none has begun or it has ended.
  std::optional<std::string_view> recipient() const;
  /// True after a message and before the next.
  bool between() const { return state_ == State::kBetween; }
  /// True if a special token that usually ends the turn only ends a message here.
  bool Continues(std::string_view name) const;

 private:
  enum class State : uint8_t {
    kUndecided,
    kReasoning,
    kLead,  // after reasoning, before the answer's first byte
    kAnswer,
    kHeader,  // kMessages: between a message's start and its text
    kCall,    // kMessages: the arguments of a call
    kBetween  // kMessages: after a message
  };

  // kSpan: bytes that may belong to a marker, from special tokens or text, wait in pending_.
  void Take(char c, bool special, ChannelParts* out);
  void Settle(ChannelParts* out);
  bool MayBecomeMarker(std::string_view text) const;
  bool ConsumeMarker();
  void Emit(char c, ChannelParts* out);
  void Write(std::string_view bytes, ChannelParts* out);
  // kMessages.
  void BeginMessage(ChannelParts* out);
  void EndMessage(ChannelParts* out);

  std::shared_ptr<const ChannelFormat> format_;
  State state_;
  std::string pending_, special_;  // special_[i]: pending_[i] comes from a special token
  std::string space_;              // white space that is text only if more text follows
  std::string header_;
  bool reasoned_ = false, answered_ = false;  // that channel has text
  bool parted_ = false;                       // the next reasoning belongs to another message
};

}  // namespace ringside
