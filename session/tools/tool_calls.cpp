#include "session/tools/tool_calls.h"

#include <utility>

#include "engine/grammar/tool_calls.h"

namespace ringside {
namespace {

using namespace tool_call_syntax;

/// JSON without the blanks outside its strings.
void AppendCompact(std::string_view json, std::string* out) {
  bool in_string = false, escaped = false;
  for (const char c : json) {
    if (!in_string && (c == ' ' || c == '\n' || c == '\t' || c == '\r')) continue;
    if (c == '"' && !escaped) in_string = !in_string;
    escaped = in_string && !escaped && c == '\\';
    *out += c;
  }
}

}  // namespace

std::vector<CallPart> ToolCallReader::Push(std::string_view text) {
  if (place_ == CallPlace::kNone) state_ = State::kRest;
  for (const char c : text) {
    Read(c);
    ++at_;
  }
  return std::exchange(parts_, {});
}

std::vector<CallPart> ToolCallReader::Finish() {
  if (state_ == State::kText) Emit(CallPart::Kind::kText, told_, at_);
  const bool opened = state_ == State::kOpening || state_ == State::kName || state_ == State::kBehindName;
  if (opened && calls_at_ < 0) calls_at_ = static_cast<int64_t>(told_);
  return std::exchange(parts_, {});
}

void ToolCallReader::Emit(CallPart::Kind kind, size_t begin, size_t end) {
  if (kind == CallPart::Kind::kText) told_ = end;
  const bool piece = kind == CallPart::Kind::kText || kind == CallPart::Kind::kArguments;
  if (piece && begin == end) return;
  if (piece && !parts_.empty() && parts_.back().kind == kind) {
    parts_.back().end = end;  // it goes on where the last one ended
  } else {
    parts_.push_back({kind, begin, end});
  }
}

// The byte is at `at_`.
void ToolCallReader::Read(char c) {
  switch (state_) {
    case State::kText:
      return ReadText(c);
    case State::kOpening:
    case State::kName:
    case State::kBehindName:
    case State::kClosing:
    case State::kBetween:
      if (!ReadMarkup(c)) Misfit(c);
      return;
    case State::kArguments:
      return ReadArguments(c);
    case State::kRest:
      if (calls_at_ < 0) Emit(CallPart::Kind::kText, told_, at_ + 1);
  }
}

void ToolCallReader::ReadText(char c) {
  if (matched_ > 0 && c != kOpen[matched_]) return Misfit(c);
  if (c == kOpen[matched_]) {
    if (++matched_ == kOpen.size()) Enter(State::kOpening);
  } else if (place_ == CallPlace::kStart && (c != kBetween || at_ > 0)) {
    Emit(CallPart::Kind::kText, told_, at_ + 1);
    state_ = State::kRest;
  } else {
    Emit(CallPart::Kind::kText, told_, c == kBetween ? at_ : at_ + 1);
  }
}

// Up to the beginning of the arguments, and behind their end.
bool ToolCallReader::ReadMarkup(char c) {
  if (state_ == State::kName) {
    if (IsToolName({&c, 1}) && at_ - name_begin_ < kMaxNameBytes) return true;
    name_end_ = at_;
    Enter(State::kBehindName);
    if (name_end_ == name_begin_) return false;
  }
  const auto matches = [&](std::string_view text) { return text[matched_] == c && ++matched_ == text.size(); };
  const size_t before = matched_;
  if (state_ == State::kOpening) {
    if (matches(kBeforeName)) {
      Enter(State::kName);
      name_begin_ = at_ + 1;
      return true;
    }
  } else if (state_ == State::kBehindName) {
    if (matched_ == kBeforeArguments.size()) {
      if (c == '{') BeginCall();
      return c == '{';
    }
    (void)matches(kBeforeArguments);
  } else if (state_ == State::kClosing) {
    static const std::string closing = std::string(kBehindArguments) + std::string(kClose);
    if (matches(closing)) return Enter(State::kBetween);
  } else {
    static const std::string next = kBetween + std::string(kOpen);
    if (matches(next)) return Enter(State::kOpening);
  }
  return matched_ > before;
}

void ToolCallReader::BeginCall() {
  if (calls_at_ < 0) calls_at_ = static_cast<int64_t>(told_);
  Emit(CallPart::Kind::kCall, name_begin_, name_end_);
  Enter(State::kArguments);
  depth_ = 0;
  in_string_ = escaped_ = false;
  ReadArguments('{');
}

void ToolCallReader::ReadArguments(char c) {
  Emit(CallPart::Kind::kArguments, at_, at_ + 1);
  if (c == '"' && !escaped_) in_string_ = !in_string_;
  escaped_ = in_string_ && !escaped_ && c == '\\';
  if (in_string_) return;
  if (c == '{' || c == '[') ++depth_;
  if ((c != '}' && c != ']') || --depth_ > 0) return;
  Emit(CallPart::Kind::kCallEnd, at_ + 1, at_ + 1);
  Enter(State::kClosing);
}

// What was kept back is text, and the byte begins anew; behind a call it is nothing.
void ToolCallReader::Misfit(char c) {
  if (calls_at_ >= 0) {
    state_ = State::kRest;
    return;
  }
  Emit(CallPart::Kind::kText, told_, at_);
  Enter(place_ == CallPlace::kStart ? State::kRest : State::kText);
  Read(c);
}

bool ToolCallReader::Enter(State state) {
  state_ = state;
  matched_ = 0;
  return true;
}

std::vector<ToolCall> ReadToolCalls(std::string_view text) {
  ToolCallReader reader(CallPlace::kStart);
  std::vector<ToolCall> calls;
  for (const CallPart& part : reader.Push(text)) {
    const std::string_view bytes = text.substr(part.begin, part.end - part.begin);
    if (part.kind == CallPart::Kind::kCall) calls.push_back({std::string(bytes), "", false});
    if (part.kind == CallPart::Kind::kArguments) calls.back().arguments += bytes;
    if (part.kind == CallPart::Kind::kCallEnd) calls.back().complete = true;
  }
  return calls;
}

void AppendToolCall(std::string_view name, std::string_view arguments, std::string* text, int64_t* calls_at) {
  if (*calls_at < 0) *calls_at = static_cast<int64_t>(text->size());
  if (!text->empty()) *text += kBetween;
  for (const std::string_view part :
       {kOpen, kBeforeName, name, kBeforeArguments, arguments, kBehindArguments, kClose}) {
    text->append(part);
  }
}

std::string ComparableText(std::string_view text, int64_t calls_at) {
  if (calls_at < 0) return std::string(text);
  std::string comparable(text.substr(0, static_cast<size_t>(calls_at)));
  int64_t begin = -1;
  for (const ToolCall& call : ReadToolCalls(text.substr(static_cast<size_t>(calls_at)))) {
    std::string arguments;
    AppendCompact(call.arguments, &arguments);
    AppendToolCall(call.name, arguments, &comparable, &begin);
  }
  return comparable;
}

bool MayBecomeCall(std::string_view text) {
  for (size_t length = kOpen.size() - 1; length > 0; --length) {
    if (text.ends_with(kOpen.substr(0, length))) return true;
  }
  return false;
}

std::string ToolCallId(std::string_view prefix, std::string_view item, size_t call) {
  return std::string(prefix) + std::string(item.substr(item.find('_') + 1)) + '_' + std::to_string(call);
}

}  // namespace ringside
