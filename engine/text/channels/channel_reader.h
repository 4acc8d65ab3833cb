// Takes a sampled text apart into reasoning and answer, as it comes. However the text is cut into pieces, all parts
// together are the same. One per answer; one thread at a time.
//
// White space next to a marker of reasoning is markup: what reasoning begins and ends with, and what separates it from
// the answer. The indentation of the answer's first line is the answer's.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "engine/text/channels/channel_format.h"

namespace ringside {

/// What a piece adds to each channel; reasoning comes first.
struct ChannelParts {
  std::string reasoning, text;
};

class ChannelReader {
 public:
  /// `format` is not null.
  explicit ChannelReader(std::shared_ptr<const ChannelFormat> format);

  /// Takes text.
  ChannelParts Push(std::string_view text);
  /// Takes a special token that has no text, by its spelling. One that is no marker of the format changes nothing.
  ChannelParts PushSpecial(std::string_view name);
  /// The text has ended. Returns the text held back, which is no marker.
  ChannelParts Finish();
  /// Text that is held back has been shown already, as of Finish: it is not shown again.
  void ForgetHeld();
  /// Whatever comes is the answer, from its first byte on. REQUIRES: in_answer() or undecided().
  void BeginAnswer();

  /// Nothing shows yet whether reasoning or the answer begins.
  bool undecided() const { return state_ == State::kUndecided; }
  /// Text is reasoning now; false inside a message's header.
  bool in_reasoning() const { return state_ == State::kReasoning; }
  /// Text is the answer now, a call in it included.
  bool in_answer() const { return state_ == State::kLead || state_ == State::kAnswer || state_ == State::kCall; }
  /// Text is a call's arguments now.
  bool in_call() const { return state_ == State::kCall; }
  /// A message has ended and none has begun.
  bool between() const { return state_ == State::kBetween; }
  /// Whether a special token that usually ends the turn does not end it here, but one of its messages.
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

  // kSpan: bytes, of special tokens or not, that may belong to a marker wait in pending_.
  void Take(char c, bool special, ChannelParts* out);
  void Settle(ChannelParts* out);
  bool MayBecomeMarker(std::string_view text) const;
  bool TakeMarker();
  void Emit(char c, ChannelParts* out);
  void Write(std::string_view bytes, ChannelParts* out);
  // kMessages.
  void BeginMessage(ChannelParts* out);
  void EndMessage(ChannelParts* out);

  std::shared_ptr<const ChannelFormat> format_;
  State state_;
  std::string pending_, special_;  // special_[i]: whether pending_[i] is of a special token
  std::string space_;              // white space that is text only if more text follows
  std::string header_;
  bool reasoned_ = false, answered_ = false;  // that channel has text
  bool parted_ = false;                       // the next reasoning is another message's
};

}  // namespace ringside
