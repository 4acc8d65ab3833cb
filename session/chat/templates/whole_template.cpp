#include "session/chat/templates/whole_template.h"

#include <algorithm>
#include <utility>

#include "session/chat/jinja/text.h"
#include "session/chat/templates/content_marks.h"
#include "session/chat/templates/probe_messages.h"
#include "session/chat/templates/template_learning.h"
#include "session/tools/tool_calls.h"

namespace ringside {
namespace {

// Maximum distance at which a message is searched after the previous one: a changed message is never found, and there
// may be many.
constexpr size_t kAhead = 1 << 16;

std::string AfterEndToken(std::string_view between, std::string_view eos) {
  return std::string(between.substr(EndToken(between, eos).second));
}

}  // namespace

// Learns the strings around messages, and whether calls are rendered.
Status WholeTemplate::LearnMessages() {
  ASSIGN_OR_RETURN(const auto around, TextsAround(run_, std::vector{kQuestion, kAnswer, kNext}, true));
  const auto [begin, end] = EndToken(around[2], facts_.eos);
  end_of_turn_ = around[2].substr(begin, end - begin);
  question_.open = around[2].substr(end);
  answer_.open = AfterEndToken(around[1], facts_.eos);
  ChatMessage call = {ChatRole::kAssistant, ""};
  AppendToolCall(kAnswer.content, "{}", &call.content, &call.calls_at);
  for (const std::string& id : {std::string("abcdefgh1"), "functions." + kAnswer.content + ":0"}) {
    call.model_ids = {id};
    const Result<std::string> called = run_.Text(std::vector{kQuestion, call}, false);
    writes_calls_ |= called.ok() && called->find(kAnswer.content) != std::string::npos;
  }
  return Status::Ok();
}

Result<WholeTemplate> WholeTemplate::LearnInput(TemplateRun run, const ChatTemplate::Facts& facts) {
  if (facts.eos.empty()) return InvalidArgument("the tokenizer has no end-of-text token");
  WholeTemplate whole(std::move(run), facts);
  RETURN_IF_ERROR(whole.LearnMessages());
  whole.question_.open.clear(), whole.answer_.open.clear();  // the string between messages may be a newline only
  whole.end_of_turn_ = facts.eos;
  return whole;
}

Result<WholeTemplate> WholeTemplate::Learn(TemplateRun run, const ChatTemplate::Facts& facts) {
  WholeTemplate whole(std::move(run), facts);
  RETURN_IF_ERROR(whole.LearnMessages());
  if (whole.end_of_turn_.empty()) return InvalidArgument("the template ends answers with no special token");
  const Result<std::string> open = whole.run_.Text(std::vector{kQuestion}, true),
                            closed = whole.run_.Text(std::vector{kQuestion}, false);
  if (open.ok() && closed.ok() && open->starts_with(*closed)) whole.generation_prompt_ = open->substr(closed->size());
  return whole;
}

TemplateFormat WholeTemplate::Ends() const {
  TemplateFormat ends = {.name = "own", .assistant_open = generation_prompt_, .end_of_turn = end_of_turn_};
  LearnPartSeparators(run_, &ends);
  return ends;
}

void WholeTemplate::FindMessagesBy(const TemplateFormat& format) {
  system_.close = format.system_close;
  question_ = {(format.bos_each_user ? format.bos : "") + format.user_open, format.user_close};
  answer_ = {format.assistant_open, format.answer_trail + format.end_of_turn + format.after_end};
  generation_prompt_ = format.generation_prompt.value_or(format.assistant_open);
}

const WholeTemplate::Markup& WholeTemplate::MarkupOf(ChatRole role) const {
  switch (role) {
    case ChatRole::kSystem:
      return system_;
    case ChatRole::kUser:
      return question_;
    case ChatRole::kAssistant:
      return answer_;
    case ChatRole::kTool:
      return other_;
  }
  return other_;
}

// The end of a message whose text ends at `at`: templates may trim white space before the closing markup, or keep it.
size_t WholeTemplate::AfterClose(std::string_view text, size_t at, ChatRole role) const {
  const std::string& close = MarkupOf(role).close;
  if (close.empty()) return at;
  if (text.substr(at).starts_with(close)) return at + close.size();
  const size_t next = std::min(text.find_first_not_of(" \t\r\n", at), text.size());
  return text.substr(next).starts_with(close) ? next + close.size() : at;
}

size_t WholeTemplate::StartOfAnswer(std::string_view text, size_t at) const {
  const std::string_view rest = text.substr(at);
  if (!answer_.close.empty() && rest.ends_with(generation_prompt_)) return text.size() - generation_prompt_.size();
  return at + EndToken(rest, facts_.eos).second;
}

// Finds the message at `at` or later: [begin, end), from the end of the previous one. An empty range if its text is not
// found; if only its opening is missing, the range includes everything before it.
std::pair<size_t, size_t> WholeTemplate::FindMessage(std::string_view text, size_t at, std::string_view open,
                                                     std::string_view content) const {
  for (size_t begin = text.find(open, at); !open.empty() && begin != text.npos; begin = text.find(open, begin + 1)) {
    const size_t first = std::min(text.find_first_not_of(" \t\r\n", begin + open.size()), text.size());
    if (content.empty()) return {begin, begin + open.size()};
    if (text.substr(first).starts_with(content)) return {begin, first + content.size()};
  }
  const size_t found = content.empty() ? text.npos : text.find(content, at);
  if (found == text.npos) return {at, at};
  const std::string_view between = text.substr(at, found - at);
  const bool opens = at == 0 || (!open.empty() && between.starts_with(open));
  return {at + (opens ? 0 : EndToken(between, facts_.eos).second), found + content.size()};
}

Result<Rendering> WholeTemplate::Render(std::span<const ChatMessage> messages, bool add_generation_prompt,
                                        std::string_view tools, const Tokenizer& tokenizer) const {
  const ContentMarks marks(tokenizer);
  const auto mark = [&](std::string_view text) { return marks.Mark(text); };
  std::vector<ChatMessage> all(messages.begin(), messages.end());
  for (ChatMessage& message : all) {
    if (!writes_calls_) message.calls_at = -1;
  }
  Result<std::string> marked_text = run_.Text(all, add_generation_prompt, tools, mark);
  if (!marked_text.ok() && std::ranges::any_of(all, [](const ChatMessage& m) { return !m.reasoning.empty(); })) {
    // Some templates reject reasoning together with text.
    for (ChatMessage& message : all) message.reasoning.clear();
    marked_text = run_.Text(all, add_generation_prompt, tools, mark);
  }
  if (!marked_text.ok()) return marked_text.status();
  std::string text = *std::move(marked_text);
  if (ContentMarks::Has(text)) {
    ASSIGN_OR_RETURN(const std::string plain, run_.Text(all, add_generation_prompt, tools));
    text = ContentMarks::MoveMarks(text, plain);
  }

  Rendering out;
  size_t at = 0;  // after the messages found so far
  for (size_t i = 0; i < all.size(); ++i) {
    const ChatMessage& message = all[i];
    const size_t bytes = std::min(static_cast<size_t>(message.calls_at), message.content.size());
    const std::string marked = mark(std::string_view(message.content).substr(0, bytes));
    const std::string_view content = jinja::Strip(marked);
    const std::string_view ahead =
        std::string_view(text).substr(0, at + message.reasoning.size() + content.size() + kAhead);
    const auto [begin, end] = FindMessage(ahead, at, MarkupOf(message.role).open, content);
    out.message_starts.push_back(i == 0 && message.role == ChatRole::kSystem ? 0 : begin);
    at = AfterClose(text, end, message.role);
  }
  if (add_generation_prompt) {
    out.message_starts.push_back(StartOfAnswer(text, at));
  }
  out.pieces = ContentMarks::TakeApart(text, &out.message_starts);
  const size_t first = messages.front().role == ChatRole::kSystem ? 1 : 0;
  if (first < out.message_starts.size()) out.pinned_pieces = out.message_starts[first];
  out.end = add_generation_prompt ? TimelineEnd::kAnswerOpen : TimelineEnd::kMessageDone;
  return out;
}

}  // namespace ringside
