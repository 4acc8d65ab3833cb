#include "session/tools/tool_calls.h"

#include <algorithm>
#include <utility>

#include "engine/grammar/tools/tool_calls.h"

namespace ringside {
namespace {

/// Appends JSON without the white space outside its strings.
void AppendCompact(std::string_view json, std::string* out) {
  bool in_string = false, escaped = false;
  for (const char c : json) {
    if (!in_string && (c == ' ' || c == '\n' || c == '\t' || c == '\r')) continue;
    if (c == '"' && !escaped) in_string = !in_string;
    escaped = in_string && !escaped && c == '\\';
    *out += c;
  }
}

/// True for a prefix of a call's arguments: {"city": "Bo
bool IsCut(std::string_view arguments) {
  const ToolSyntax& syntax = SyntaxOf(ToolSyntaxName::kHermes);
  ToolCallReader reader(CallPlace::kStart);
  std::string shown;
  for (const std::string_view part : {syntax.opening, std::string_view("f"), syntax.before_arguments, arguments}) {
    reader.Push(part, &shown);
  }
  return reader.in_call();
}

}  // namespace

std::vector<CallPart> ToolCallReader::Push(std::string_view text, std::string* shown) {
  if (place_ == CallPlace::kNone) state_ = State::kRest;
  shown_ = shown;
  for (const char c : text) {
    at_ = shown->size();
    if (!transcodes() || calls_at_ < 0) *shown += c;
    Read(c);
  }
  at_ = shown->size();
  return std::exchange(parts_, {});
}

std::vector<CallPart> ToolCallReader::Finish() {
  const bool opened = state_ == State::kOpening || state_ == State::kName || state_ == State::kAfterName;
  if (state_ == State::kText || (opened && calls_at_ < 0 && weak_marker())) Emit(CallPart::Kind::kText, told_, at_);
  if (opened && calls_at_ < 0 && !weak_marker()) calls_at_ = static_cast<int64_t>(told_);
  return std::exchange(parts_, {});
}

void ToolCallReader::Emit(CallPart::Kind kind, size_t begin, size_t end) {
  if (kind == CallPart::Kind::kText) told_ = end;
  const bool piece = kind == CallPart::Kind::kText || kind == CallPart::Kind::kArguments;
  if (piece && begin == end) return;
  if (piece && !parts_.empty() && parts_.back().kind == kind) {
    parts_.back().end = end;  // extends the previous part
  } else {
    parts_.push_back({kind, begin, end});
  }
}

// Processes the byte at `at_`.
void ToolCallReader::Read(char c) {
  switch (state_) {
    case State::kText:
      return ReadText(c);
    case State::kOpening:
    case State::kName:
    case State::kAfterName:
    case State::kClosing:
    case State::kBetween:
      if (!ReadMarkup(c)) Misfit(c);
      return;
    case State::kArguments:
      return arguments_ != nullptr ? ReadOtherArguments(c) : ReadArguments(c);
    case State::kRest:
      if (calls_at_ < 0) Emit(CallPart::Kind::kText, told_, at_ + 1);
  }
}

void ToolCallReader::ReadText(char c) {
  const std::string_view marker = syntax_->marker();
  const bool newline = c == '\n' && !syntax_->alone;  // belongs to the calls if they follow
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

// Reads markup before and after the arguments.
bool ToolCallReader::ReadMarkup(char c) {
  if (state_ == State::kName) {
    if (ReadName(c)) return true;
    name_end_ = at_;
    std::string_view before = syntax_->before_arguments;
    if (syntax_->loose() && before.ends_with('\n')) before.remove_suffix(1);  // ArgumentReader skips it
    Enter(State::kAfterName, before);
    if (!IsCallableName(name_)) return false;
  }
  if (expected_.empty()) {  // after the name
    const char first = syntax_->arguments.form == ToolSyntax::Arguments::Form::kPython ? '(' : '{';
    if (syntax_->loose() ? c != '\n' && c != '<' : c != first) return false;
    BeginCall();
    Read(c);
    return true;
  }
  if (!ReadPattern(c)) return false;
  if (!expected_.empty()) return true;
  if (state_ == State::kOpening || state_ == State::kBetween) BeginName();
  if (state_ == State::kClosing) Enter(State::kBetween, syntax_->next);
  if (state_ == State::kAfterName && syntax_->loose()) BeginCall();
  return true;
}

// Matches a byte of `expected_`; newlines are optional in loose syntaxes.
bool ToolCallReader::ReadPattern(char c) {
  const bool digit = FitsPattern('%', c);
  if (expected_.front() == '%' && digit) return ++matched_ <= kMaxNumberDigits;
  if (expected_.front() == '%') {
    if (matched_ == 0) return false;
    matched_ = 0;
    expected_.remove_prefix(1);
  }
  if (syntax_->loose() && c == '\n' && matched_ == 0) return true;
  while (syntax_->loose() && expected_.front() == '\n') expected_.remove_prefix(1);
  if (!FitsPattern(expected_.front(), c)) return false;
  expected_.remove_prefix(1);
  if (syntax_->loose()) matched_ = c == '>' ? 0 : 1;
  return true;
}

void ToolCallReader::BeginName() {
  Enter(State::kName);
  name_.clear();
  name_begin_ = at_ + 1;
  part_begin_ = 0;
}

// True if the byte continues a name, as defined by IsCallableName.
bool ToolCallReader::ReadName(char c) {
  const size_t part = name_.size() - part_begin_;
  const bool divides = c == '.' && part > 0 && part_begin_ == 0;
  if (!divides && !(IsToolName({&c, 1}) && part < kMaxToolNameBytes)) return false;
  name_ += c;
  if (divides) part_begin_ = name_.size();
  return true;
}

void ToolCallReader::BeginCall() {
  if (calls_at_ < 0) {
    calls_at_ = static_cast<int64_t>(told_);
    if (transcodes()) shown_->resize(told_);
  }
  Enter(State::kArguments);
  in_call_ = true;
  depth_ = 0;
  in_string_ = escaped_ = false;
  if (!transcodes()) return Emit(CallPart::Kind::kCall, name_begin_, name_end_);
  const ToolSyntax& hermes = SyntaxOf(ToolSyntaxName::kHermes);
  shown_->append(shown_->empty() ? hermes.opening : hermes.next).append(name_);
  Emit(CallPart::Kind::kCall, shown_->size() - name_.size(), shown_->size());
  shown_->append(hermes.before_arguments);
  const size_t begin = shown_->size();
  if (syntax_->loose()) *shown_ += '{';
  Emit(CallPart::Kind::kArguments, begin, shown_->size());
  arguments_ = MakeArgumentReader(*syntax_, types_, name_);
}

void ToolCallReader::ReadArguments(char c) {
  Emit(CallPart::Kind::kArguments, at_, at_ + 1);
  if (c == '"' && !escaped_) in_string_ = !in_string_;
  escaped_ = in_string_ && !escaped_ && c == '\\';
  if (in_string_) return;
  if (c == '{' || c == '[') ++depth_;
  if ((c != '}' && c != ']') || --depth_ > 0) return;
  Emit(CallPart::Kind::kCallEnd, at_ + 1, at_ + 1);
  BeginClosing();
}

void ToolCallReader::ReadOtherArguments(char c) {
  const size_t begin = shown_->size();
  const ArgumentReader::Next next = arguments_->Read(c, shown_);
  Emit(CallPart::Kind::kArguments, begin, shown_->size());
  if (next == ArgumentReader::Next::kInvalidByte) state_ = State::kRest;  // the call stays open
  if (next != ArgumentReader::Next::kDone) return;
  Emit(CallPart::Kind::kCallEnd, shown_->size(), shown_->size());
  shown_->append(SyntaxOf(ToolSyntaxName::kHermes).after_arguments);
  arguments_.reset();
  BeginClosing();
}

void ToolCallReader::BeginClosing() {
  in_call_ = false;
  const bool closed = syntax_->loose() || syntax_->after_arguments.empty();
  closed ? Enter(State::kBetween, syntax_->next) : Enter(State::kClosing, syntax_->after_arguments);
}

// Emits the held-back text and reads the byte again as text; after a call the text is dropped.
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

namespace {

/// Returns the model's id of a call, "" if it has none. `before` ends at the name's end, `after` at the arguments'.
std::string ModelIdIn(const ToolSyntax& syntax, std::string_view name, std::string_view before,
                      std::string_view after) {
  if (syntax.has_numbered_ids()) {
    const size_t number = syntax.before_arguments.find('%');
    const std::string_view digits = before.substr(number, before.find_first_not_of("0123456789", number) - number);
    return "functions." + std::string(name) + ':' + std::string(digits);
  }
  for (const auto& [pattern, text] : {std::pair(syntax.before_arguments, before), {syntax.after_arguments, after}}) {
    const size_t at = pattern.find('#');
    if (at == std::string_view::npos || text.size() < at + kModelIdBytes) continue;
    const std::string_view id = text.substr(at, kModelIdBytes);
    if (std::ranges::all_of(id, [](char c) { return FitsPattern('#', c); })) return std::string(id);
  }
  return "";
}

std::vector<ToolCall> ReadCallsIn(const ToolSyntax& syntax, std::string_view text) {
  ToolCallReader reader(CallPlace::kStart, syntax.name);
  std::vector<ToolCall> calls;
  std::string shown;
  size_t name_end = 0;
  for (const CallPart& part : reader.Push(text, &shown)) {
    const std::string_view bytes = std::string_view(shown).substr(part.begin, part.end - part.begin);
    if (part.kind == CallPart::Kind::kCall) calls.push_back({.name = std::string(bytes), .complete = false});
    if (part.kind == CallPart::Kind::kCall) name_end = part.end;
    if (part.kind == CallPart::Kind::kArguments) calls.back().arguments += bytes;
    if (part.kind != CallPart::Kind::kCallEnd) continue;
    calls.back().complete = true;
    if (!syntax.has_json()) continue;
    calls.back().id = ModelIdIn(syntax, calls.back().name, text.substr(name_end), text.substr(part.end));
  }
  return calls;
}

}  // namespace

std::vector<ToolCall> ReadToolCalls(std::string_view text) {
  // Several syntaxes may share an opening; the markup after it distinguishes them.
  for (const ToolSyntax& syntax : ToolSyntaxes()) {
    if (!BeginsAsCalls(syntax, text)) continue;
    std::vector<ToolCall> calls = ReadCallsIn(syntax, text);
    if (!calls.empty()) return calls;
  }
  return {};
}

void AppendToolCall(std::string_view name, std::string_view arguments, std::string* text, int64_t* calls_at) {
  const ToolSyntax& syntax = SyntaxOf(ToolSyntaxName::kHermes);
  if (*calls_at < 0) *calls_at = static_cast<int64_t>(text->size());
  text->append(text->empty() ? syntax.opening : syntax.next).append(name);
  text->append(syntax.before_arguments).append(arguments);
  if (!IsCut(arguments)) text->append(syntax.after_arguments);
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
  if (!syntax.reserved && syntax.before_arguments.empty() && place == CallPlace::kStart) {  // [f
    const bool begun = text.starts_with(syntax.opening) &&
                       (text == syntax.opening || IsCallableName(text.substr(syntax.opening.size())));
    return begun ? 0 : text.size();
  }
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
