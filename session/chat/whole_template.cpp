#include "session/chat/whole_template.h"

#include <algorithm>
#include <utility>

#include "session/chat/content_marks.h"
#include "session/chat/jinja/text.h"
#include "session/chat/template_learning.h"
#include "session/tools/tool_calls.h"

namespace ringside {
namespace {

const ChatMessage kQuestion = {ChatRole::kUser, "Zqa3quvx"}, kAnswer = {ChatRole::kAssistant, "Zaa4quvx"},
                  kNext = {ChatRole::kUser, "Zqb5quvx"};

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
  question_open_ = around[2].substr(end);
  answer_open_ = AfterEndToken(around[1], facts_.eos);
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
  whole.question_open_.clear(), whole.answer_open_.clear();  // the string between messages may be a newline only
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

std::string_view WholeTemplate::Open(ChatRole role) const {
  return role == ChatRole::kUser ? question_open_ : role == ChatRole::kAssistant ? answer_open_ : std::string_view();
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
  const size_t end_before = at == 0 ? 0 : EndToken(text.substr(at, found - at), facts_.eos).second;
  return {at + end_before, found + content.size()};
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
    const auto [begin, end] = FindMessage(ahead, at, Open(message.role), content);
    out.message_starts.push_back(i == 0 && message.role == ChatRole::kSystem ? 0 : begin);
    at = end;
  }
  if (add_generation_prompt) {
    out.message_starts.push_back(at + EndToken(std::string_view(text).substr(at), facts_.eos).second);
  }
  out.pieces = ContentMarks::TakeApart(text, &out.message_starts);
  const size_t first = messages.front().role == ChatRole::kSystem ? 1 : 0;
  if (first < out.message_starts.size()) out.pinned_pieces = out.message_starts[first];
  out.end = add_generation_prompt ? TimelineEnd::kAnswerOpen : TimelineEnd::kMessageDone;
  return out;
}

}  // namespace ringside
