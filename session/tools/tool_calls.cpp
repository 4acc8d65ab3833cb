#include "session/tools/tool_calls.h"

#include <algorithm>
#include <utility>

#include "engine/grammar/tools/tool_calls.h"

namespace ringside {
namespace {

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

/// Whether they are the beginning of a call's arguments: {"city": "Bo
bool IsCut(std::string_view arguments) {
  const ToolSyntax& syntax = SyntaxOf(ToolSyntaxName::kHermes);
  ToolCallReader reader(CallPlace::kStart);
  for (const std::string_view part : {syntax.opening, std::string_view("f"), syntax.before_arguments, arguments}) {
    reader.Push(part);
  }
  return reader.in_call();
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
  const std::string_view marker = syntax_->marker();
  const bool newline = c == '\n' && !syntax_->alone;  // the calls', if they follow
  if (matched_ > 0 && c != marker[matched_]) return Misfit(c);
  if (c == marker[matched_]) {
    if (++matched_ < marker.size()) return;
    Enter(State::kOpening, syntax_->opening.substr(marker.size()));
    if (expected_.empty()) BeginName();
  } else if (place_ == CallPlace::kStart && (!newline || at_ > 0)) {
    Emit(CallPart::Kind::kText, told_, at_ + 1);
    state_ = State::kRest;
  } else {
    Emit(CallPart::Kind::kText, told_, newline ? at_ : at_ + 1);
  }
}

// Up to the beginning of the arguments, and behind their end.
bool ToolCallReader::ReadMarkup(char c) {
  if (state_ == State::kName) {
    if (ReadName(c)) return true;
    name_end_ = at_;
    Enter(State::kBehindName, syntax_->before_arguments);
    if (name_end_ == part_begin_) return false;
  }
  if (expected_.empty()) {  // behind the name
    if (c == '{') BeginCall();
    return c == '{';
  }
  if (!FitsPattern(expected_.front(), c)) return false;
  expected_.remove_prefix(1);
  if (!expected_.empty()) return true;
  if (state_ == State::kOpening || state_ == State::kBetween) BeginName();
  if (state_ == State::kClosing) Enter(State::kBetween, syntax_->next);
  return true;
}

void ToolCallReader::BeginName() {
  Enter(State::kName);
  name_begin_ = part_begin_ = at_ + 1;
}

// True if the byte belongs to a name, as IsCallableName has it.
bool ToolCallReader::ReadName(char c) {
  const size_t part = at_ - part_begin_;
  if (c != '.') return IsToolName({&c, 1}) && part < kMaxToolNameBytes;
  const bool divides = part > 0 && part_begin_ == name_begin_;
  if (divides) part_begin_ = at_ + 1;
  return divides;
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
  Enter(State::kClosing, syntax_->behind_arguments);
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

void ToolCallReader::Enter(State state, std::string_view expected) {
  state_ = state;
  expected_ = expected;
  matched_ = 0;
}

std::vector<ToolCall> ReadToolCalls(std::string_view text) {
  const ToolSyntaxName syntax = SyntaxOfCalls(text);
  const size_t id = SyntaxOf(syntax).behind_arguments.find('#');
  ToolCallReader reader(CallPlace::kStart, syntax);
  std::vector<ToolCall> calls;
  for (const CallPart& part : reader.Push(text)) {
    const std::string_view bytes = text.substr(part.begin, part.end - part.begin);
    if (part.kind == CallPart::Kind::kCall) calls.push_back({.name = std::string(bytes), .complete = false});
    if (part.kind == CallPart::Kind::kArguments) calls.back().arguments += bytes;
    if (part.kind != CallPart::Kind::kCallEnd) continue;
    calls.back().complete = true;
    if (id == std::string_view::npos || text.size() < part.end + id + kModelIdBytes) continue;
    const std::string_view given = text.substr(part.end + id, kModelIdBytes);
    if (std::ranges::all_of(given, [](char c) { return FitsPattern('#', c); })) calls.back().id = given;
  }
  return calls;
}

void AppendToolCall(std::string_view name, std::string_view arguments, std::string* text, int64_t* calls_at) {
  const ToolSyntax& syntax = SyntaxOf(ToolSyntaxName::kHermes);
  if (*calls_at < 0) *calls_at = static_cast<int64_t>(text->size());
  text->append(text->empty() ? syntax.opening : syntax.next).append(name);
  text->append(syntax.before_arguments).append(arguments);
  if (!IsCut(arguments)) text->append(syntax.behind_arguments);
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

size_t FirstCall(std::string_view text, int64_t calls_at, CallPlace place, ToolSyntaxName name) {
  if (calls_at >= 0) return static_cast<size_t>(calls_at);
  if (place == CallPlace::kNone) return text.size();
  const ToolSyntax& syntax = SyntaxOf(name);
  for (size_t length = syntax.marker_bytes - 1; length > 0; --length) {
    const std::string_view begun = syntax.marker().substr(0, length);
    if (place == CallPlace::kStart ? text == begun : text.ends_with(begun)) return text.size() - length;
  }
  return text.size();
}

std::string ToolCallId(std::string_view prefix, std::string_view item, size_t call) {
  return std::string(prefix) + std::string(item.substr(item.find('_') + 1)) + '_' + std::to_string(call);
}

std::string ModelCallId(std::string_view public_id) {
  std::string id;
  for (size_t i = public_id.size(); i > 0 && id.size() < kModelIdBytes; --i) {
    if (FitsPattern('#', public_id[i - 1])) id += public_id[i - 1];
  }
  id.append(kModelIdBytes - id.size(), '0');
  std::ranges::reverse(id);
  return id;
}

}  // namespace ringside
