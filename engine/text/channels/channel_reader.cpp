#include "engine/text/channels/channel_reader.h"

#include <algorithm>
#include <utility>

namespace ringside {
namespace {

constexpr std::string_view kSpaces = " \t\r\n";
constexpr std::string_view kWordEnds = " \t\r\n<", kRecipient = "to=";
constexpr size_t kMaxMessageHeaderBytes = 1024;  // the rest of a longer header is dropped

bool IsSpace(char c) { return kSpaces.find(c) != kSpaces.npos; }

/// The part of leading white space that belongs to the text's first line.
std::string Indentation(std::string_view space) {
  const size_t line = space.rfind('\n');
  return std::string(line == space.npos ? std::string_view() : space.substr(line + 1));
}

/// The word after `key` in a message's header; "" = none.
std::string_view WordAfter(std::string_view header, std::string_view key) {
  const size_t at = header.rfind(key);
  if (at == header.npos) return {};
  const std::string_view word = header.substr(at + key.size());
  return word.substr(0, word.find_first_of(kWordEnds));
}

}  // namespace

ChannelReader::ChannelReader(std::shared_ptr<const ChannelFormat> format) : format_(std::move(format)) {
  using Start = ChannelFormat::Start;
  const bool messages = format_->layout == ChannelFormat::Layout::kMessages;
  if (messages) {
    const bool begun = format_->start == Start::kAnswer;
    state_ = begun ? State::kAnswer : State::kHeader;
    if (begun) header_ = "<|channel|>final";
  } else {
    state_ = format_->start == Start::kAnswer      ? State::kAnswer
             : format_->start == Start::kReasoning ? State::kReasoning
                                                   : State::kUndecided;
  }
}

ChannelParts ChannelReader::Push(std::string_view text) {
  ChannelParts out;
  if (format_->layout == ChannelFormat::Layout::kSpan) {
    for (const char c : text) Take(c, false, &out);
    return out;
  }
  if (state_ == State::kHeader) {
    header_ += text.substr(0, kMaxMessageHeaderBytes - std::min(header_.size(), kMaxMessageHeaderBytes));
  } else if (!text.empty()) {
    if (state_ == State::kReasoning && std::exchange(parted_, false)) Write("\n\n", &out);
    Write(text, &out);
  }
  return out;
}

ChannelParts ChannelReader::PushSpecial(std::string_view name) {
  ChannelParts out;
  if (format_->layout == ChannelFormat::Layout::kSpan) {
    bool known = false;
    for (const std::string* marker :
         {&format_->open, &format_->close, &format_->answer_open, &format_->answer_close, &format_->message_close}) {
      known |= marker->find(name) != marker->npos;
    }
    if (!known) return out;
    for (const char c : name) Take(c, true, &out);
    return out;
  }
  if (name == "<|message|>") {
    if (state_ == State::kHeader) BeginMessage(&out);
  } else if (name == "<|start|>") {
    EndMessage(&out);
    state_ = State::kHeader;
    header_.clear();
  } else if (name == "<|channel|>") {
    if (state_ != State::kHeader) {
      EndMessage(&out);
      state_ = State::kHeader;
      header_.clear();
    }
    header_ += name;
  } else if (name == "<|end|>" || name == "<|call|>" || name == "<|return|>") {
    EndMessage(&out);
    state_ = State::kBetween;
  } else if (state_ == State::kHeader) {
    header_ += ' ';  // <|constrain|>
  }
  return out;
}

void ChannelReader::BeginMessage(ChannelParts* out) {
  const std::string_view channel = WordAfter(header_, "<|channel|>");
  std::string_view recipient = WordAfter(header_, kRecipient);
  constexpr std::string_view kFunctions = "functions.";
  if (!recipient.empty()) {
    if (recipient.starts_with(kFunctions)) recipient.remove_prefix(kFunctions.size());
    state_ = State::kCall;
    Write(answered_ ? format_->call_next : format_->call_open, out);
    Write(recipient, out);
    return Write(format_->call_arguments, out);
  }
  state_ = channel == "analysis" ? State::kReasoning : State::kAnswer;
  parted_ = reasoned_;
}

std::optional<std::string_view> ChannelReader::recipient() const {
  const size_t at = state_ == State::kHeader ? header_.rfind(kRecipient) : header_.npos;
  if (at == header_.npos) return std::nullopt;
  const std::string_view word = std::string_view(header_).substr(at + kRecipient.size());
  return word.find_first_of(kWordEnds) == word.npos ? std::optional(word) : std::nullopt;
}

void ChannelReader::EndMessage(ChannelParts* out) {
  if (state_ == State::kCall) Write(format_->call_close, out);
}

bool ChannelReader::Continues(std::string_view name) const {
  if (format_->layout == ChannelFormat::Layout::kSpan) {
    return state_ == State::kReasoning && name.size() < format_->close.size() && format_->close.starts_with(name);
  }
  return format_->layout == ChannelFormat::Layout::kMessages && name == "<|end|>" &&
         !(state_ == State::kAnswer && WordAfter(header_, "<|channel|>") == "final");
}

void ChannelReader::BeginAnswer() {
  if (format_->layout == ChannelFormat::Layout::kMessages) return;
  state_ = State::kAnswer;
  space_.clear();
}

ChannelParts ChannelReader::Finish() {
  ChannelParts out;
  for (size_t i = 0; i < pending_.size(); ++i) {
    if (special_[i] == 0) Emit(pending_[i], &out);
  }
  pending_.clear();
  special_.clear();
  // White space alone can be an answer, or the end of truncated reasoning.
  if (state_ == State::kUndecided || (state_ == State::kReasoning && reasoned_)) Write(std::exchange(space_, {}), &out);
  return out;
}

void ChannelReader::ForgetHeld() {
  if (state_ != State::kReasoning) return;
  special_.assign(pending_.size(), '\1');  // marks bytes that are not emitted as text
  reasoned_ |= !pending_.empty();
  if (reasoned_) space_.clear();
}

void ChannelReader::Take(char c, bool special, ChannelParts* out) {
  pending_ += c;
  special_ += special ? '\1' : '\0';
  Settle(out);
}

// Emits bytes from the front until the rest may be the start of a marker.
void ChannelReader::Settle(ChannelParts* out) {
  while (!pending_.empty()) {
    if (ConsumeMarker() || MayBecomeMarker(pending_)) return;
    const char first = pending_.front();
    const bool special = special_.front() != 0;
    pending_.erase(0, 1);
    special_.erase(0, 1);
    if (!special) Emit(first, out);
  }
}

bool ChannelReader::MayBecomeMarker(std::string_view text) const {
  const auto begins = [&](const std::string& marker) { return !marker.empty() && marker.starts_with(text); };
  switch (state_) {
    case State::kUndecided:
      return begins(format_->open) || begins(format_->close);
    case State::kReasoning:
      return begins(format_->close) || (!reasoned_ && begins(format_->open));
    case State::kLead:
      return begins(format_->answer_open);
    default:
      return begins(format_->answer_close) || begins(format_->message_close);
  }
}

bool ChannelReader::ConsumeMarker() {
  const auto is = [&](const std::string& marker) { return !marker.empty() && pending_ == marker; };
  const State before = state_;
  bool found = true;
  if (before == State::kUndecided && is(format_->open)) {
    state_ = State::kReasoning;
  } else if ((before == State::kUndecided || before == State::kReasoning) && is(format_->close)) {
    state_ = State::kLead;
  } else {
    found = (before == State::kReasoning && !reasoned_ && is(format_->open)) ||
            (before == State::kLead && is(format_->answer_open)) ||
            (before == State::kAnswer && (is(format_->answer_close) || is(format_->message_close)));
  }
  if (!found) return false;
  pending_.clear();
  special_.clear();
  space_.clear();
  return true;
}

void ChannelReader::Emit(char c, ChannelParts* out) {
  if (IsSpace(c) && state_ != State::kAnswer) {
    space_ += c;
    return;
  }
  if (state_ == State::kUndecided) {
    state_ = State::kAnswer;
    Write(std::exchange(space_, {}), out);
  } else if (state_ == State::kLead || (state_ == State::kReasoning && !reasoned_)) {
    if (state_ == State::kLead) state_ = State::kAnswer;
    Write(Indentation(std::exchange(space_, {})), out);
  } else if (state_ == State::kReasoning) {
    Write(std::exchange(space_, {}), out);
  }
  Write({&c, 1}, out);
}

void ChannelReader::Write(std::string_view bytes, ChannelParts* out) {
  if (bytes.empty() || state_ == State::kBetween) return;
  const bool reasoning = state_ == State::kReasoning;
  (reasoning ? reasoned_ : answered_) = true;
  (reasoning ? out->reasoning : out->text) += bytes;
}

}  // namespace ringside
