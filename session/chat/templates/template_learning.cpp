#include "session/chat/templates/template_learning.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "session/chat/templates/probe_messages.h"

namespace ringside {
namespace {

using NoText = TemplateFormat::NoText;
using SystemPlace = TemplateFormat::SystemPlace;
using Trim = TemplateFormat::Trim;
using Trims = TemplateFormat::Trims;

const ChatMessage kSystem = {ChatRole::kSystem, "Zsy1quvx"}, kLateSystem = {ChatRole::kSystem, "Zls2quvx"};
constexpr std::string_view kThought = "Zth6quvx";
constexpr char kBlank[] = " \n ";

/// Length of the common prefix of two texts, excluding a partial special token, whose name starts with "<|".
size_t CommonMarkup(std::string_view a, std::string_view b) {
  const auto ends = std::ranges::mismatch(a, b);
  std::string_view common = a.substr(0, static_cast<size_t>(ends.in1 - a.begin()));
  if (common.size() == a.size() || common.size() == b.size()) return common.size();
  for (const auto& [open, close] : {std::pair{'<', '>'}, std::pair{'[', ']'}}) {
    const size_t begin = common.rfind(open);
    if (begin != common.npos && common.find(close, begin) == common.npos) common = common.substr(0, begin);
  }
  return common.size();
}

/// `text` without a final token that some templates write at the end of everything.
std::string_view WithoutEos(std::string_view text, std::string_view eos) {
  return !eos.empty() && text.ends_with(eos) ? text.substr(0, text.size() - eos.size()) : text;
}

class Learner {
 public:
  Learner(const TemplateRun& run, const ChatTemplate::Facts& facts, std::vector<std::string>* caveats)
      : run_(run), facts_(facts), caveats_(*caveats) {}

  Result<TemplateFormat> Learn() {
    RETURN_IF_ERROR(LearnQuestions());
    RETURN_IF_ERROR(LearnAnswers());
    RETURN_IF_ERROR(LearnSystem());
    LearnTrimming();
    LearnAbsentSystem();
    LearnAbsentAnswer();
    LearnThinking();
    LearnReasoning();
    LearnLateSystem();
    return std::move(format_);
  }

 private:
  /// Learns the strings around a user's message and after an answer: from the text between two questions, or otherwise
  /// from a conversation's end.
  Status LearnQuestions() {
    ASSIGN_OR_RETURN(const auto one, TextsAround(run_, {kQuestion}, true));
    ASSIGN_OR_RETURN(const auto two, TextsAround(run_, {kQuestion, kAnswer, kNext}, true));
    if (two[0] != one[0] || two[3] != one[1]) {
      return InvalidArgument("the second question is rendered differently from the first");
    }
    head_ = one[0];
    between_ = two[1];
    const auto bare = TextsAround(run_, {kQuestion}, false), last = TextsAround(run_, {kQuestion, kAnswer}, false),
               doubled = TextsAround(run_, {kQuestion, kNext}, false);
    const std::string& prompt = one[1];
    std::string_view end = bare.ok() ? std::string_view((*bare)[1]) : std::string_view(prompt);
    if (!prompt.starts_with(end)) end = WithoutEos(end, facts_.eos);

    const auto opens = [&](std::string_view open) { return two[2].ends_with(open) && head_.ends_with(open); };
    if (doubled.ok() && (*doubled)[1].starts_with(end) && opens((*doubled)[1].substr(end.size()))) {
      format_.user_open = (*doubled)[1].substr(end.size());
    } else if (last.ok()) {
      std::string_view close = (*last)[2];
      if (!two[2].starts_with(close)) close = WithoutEos(close, facts_.eos);
      format_.user_open = two[2].substr(CommonMarkup(close, two[2]));
    } else {
      return last.status();
    }
    if (!opens(format_.user_open))
      return InvalidArgument("the start of later questions differs from that of the first");
    close_ = two[2].substr(0, two[2].size() - format_.user_open.size());
    if (last.ok() && (*last)[2] != close_) LearnOtherEnd((*last)[2]);

    const bool ends_early = prompt.starts_with(end) && end.size() < prompt.size();
    if (!ends_early) end = !close_.empty() && prompt.starts_with(close_) ? std::string_view(close_) : prompt;
    format_.user_close = end;
    prompt_ = prompt.substr(end.size());
    before_question_ = head_.substr(0, head_.size() - format_.user_open.size());
    if (before_question_.empty() && !facts_.bos.empty() && format_.user_open.starts_with(facts_.bos)) {
      format_.bos_each_user = true;
      format_.bos = facts_.bos;
      format_.user_open.erase(0, facts_.bos.size());
    }
    return Status::Ok();
  }

  /// Learns a token that replaces the usual one at the end of the last answer.
  void LearnOtherEnd(std::string_view end) {
    const auto [begin, size] = EndToken(end, "");
    if (begin == 0 && size == end.size() && !end.empty() && !close_.starts_with(end)) format_.end_of_call = end;
  }

  Status LearnAnswers() {
    if (!between_.starts_with(format_.user_close)) {
      return InvalidArgument("the end of an answered question differs from that of the last question");
    }
    const std::string open = between_.substr(format_.user_close.size());
    if (open.starts_with(prompt_)) {
      format_.assistant_open = prompt_;
      format_.answer_lead = open.substr(prompt_.size());
    } else {
      format_.assistant_open = open;
      format_.generation_prompt = prompt_;
    }
    const auto [begin, end] = EndToken(close_, facts_.eos);
    format_.answer_trail = close_.substr(0, begin);
    format_.end_of_turn = close_.substr(begin, end - begin);
    format_.after_end = close_.substr(end);
    if (format_.end_of_turn.empty()) caveats_.emplace_back("nothing that the template writes ends an answer");
    return Status::Ok();
  }

  Status LearnSystem() {
    const auto around = TextsAround(run_, {kSystem, kQuestion}, true);
    if (!format_.bos_each_user) format_.bos = before_question_;
    if (!around.ok()) {
      // The system text then starts the first question, as in templates without another place for it.
      format_.system_place = SystemPlace::kFirstUser;
      format_.system_close = "\n\n";
      refuses_system_ = !run_.Text(std::vector<ChatMessage>{kSystem, kQuestion}, true).ok();
      caveats_.push_back(std::string("system messages, which the template ") + (refuses_system_ ? "refuses" : "drops") +
                         ", stand in front of the first question");
      return Status::Ok();
    }
    const std::string &before = (*around)[0], &behind = (*around)[1];
    const std::string open = (format_.bos_each_user ? format_.bos : "") + format_.user_open;
    if (behind.ends_with(open)) {
      format_.system_close = behind.substr(0, behind.size() - open.size());
      return LearnSystemTurn(before);
    }
    if (!before.starts_with(head_))
      return InvalidArgument("the system message's position is not supported by any format");
    format_.system_place = SystemPlace::kFirstUser;
    format_.system_open = before.substr(head_.size());
    format_.system_close = behind;
    return Status::Ok();
  }

  /// `before`: the string before a system message of its own.
  Status LearnSystemTurn(const std::string& before) {
    if (before.starts_with(before_question_)) {
      format_.system_open = before.substr(before_question_.size());
      return Status::Ok();
    }
    // Without a system message the template writes a default one.
    const bool bos = !facts_.bos.empty() && before.starts_with(facts_.bos) && before_question_.starts_with(facts_.bos);
    format_.bos = bos ? facts_.bos : "";
    format_.system_open = before.substr(format_.bos.size());
    std::string_view own = std::string_view(before_question_).substr(format_.bos.size());
    if (!own.starts_with(format_.system_open) || !own.ends_with(format_.system_close) ||
        own.size() < format_.system_open.size() + format_.system_close.size()) {
      return InvalidArgument("a system message changes more than its own text");
    }
    own.remove_prefix(format_.system_open.size());
    own.remove_suffix(format_.system_close.size());
    format_.default_system = own;
    return Status::Ok();
  }

  /// White space removed around a message's text; nullopt if the template does not render it.
  std::optional<Trims> TrimsOf(std::vector<ChatMessage> messages, size_t which) const {
    const auto plain = TextsAround(run_, messages, true);
    if (!plain.ok()) return std::nullopt;
    size_t before = 0, behind = (*plain)[which + 1].size();
    for (size_t i = 0; i <= which; ++i) before += (*plain)[i].size() + (i < which ? messages[i].content.size() : 0);
    for (size_t i = which + 1; i < messages.size(); ++i) behind += messages[i].content.size() + (*plain)[i + 1].size();
    const std::string inside = messages[which].content;
    Trims trims;
    for (const auto& [trim, space] : {std::pair{Trim::kNewlines, "\n\n"}, std::pair{Trim::kAll, " \n "}}) {
      messages[which].content = space + inside + space;
      const Result<std::string> text = run_.Text(messages, true);
      const size_t at = text.ok() ? text->find(inside) : std::string::npos;
      if (at == std::string::npos) return std::nullopt;
      if (at == before) trims.left = trim;
      if (text->size() - at - inside.size() == behind) trims.right = trim;
    }
    return trims;
  }

  void LearnTrimming() {
    format_.trim_user = TrimsOf({kQuestion}, 0).value_or(Trims());
    format_.trim_assistant = TrimsOf({kQuestion, kAnswer, kNext}, 1).value_or(Trims());
    format_.trim_system = TrimsOf({kSystem, kQuestion}, 0).value_or(Trims());
    if (format_.trim_user.left == Trim::kNone || format_.system_place != SystemPlace::kFirstUser) return;
    const std::optional<Trims> behind_system = TrimsOf({kSystem, kQuestion}, 1);
    format_.trim_user_right_only_after_system =
        behind_system && *behind_system == Trims{Trim::kNone, format_.trim_user.right};
  }

  /// The rendering of `messages` between two texts; nullopt if a text is missing.
  std::optional<std::string> Between(std::string_view before, const std::vector<ChatMessage>& messages,
                                     std::string_view behind) const {
    const Result<std::string> text = run_.Text(messages, true);
    const bool fits = text.ok() && text->starts_with(before) && text->ends_with(behind) &&
                      text->size() >= before.size() + behind.size();
    if (!fits) return std::nullopt;
    return text->substr(before.size(), text->size() - before.size() - behind.size());
  }

  /// A user's message followed by an open answer.
  std::string LastQuestion(const std::string& text) const {
    return (format_.bos_each_user ? format_.bos : "") + format_.user_open + text + format_.user_close + prompt_;
  }

  /// Learns the markup in place of a system message without text, if it differs.
  void LearnAbsentSystem() {
    const auto written = [&](const char* content) {
      return Between(format_.bos_each_user ? "" : format_.bos, {{ChatRole::kSystem, content}, kQuestion},
                     LastQuestion(kQuestion.content));
    };
    const std::optional<std::string> empty = refuses_system_ ? "" : written("");
    const bool own_turn = format_.system_place == SystemPlace::kOwnTurn;
    if (!empty || (own_turn && *empty == format_.system_open + format_.system_close)) return;
    format_.absent_system = refuses_system_ || written(kBlank) == empty ? NoText::kBlank : NoText::kEmpty;
    format_.empty_system = *empty;
  }

  /// As LearnAbsentSystem, for an answer.
  void LearnAbsentAnswer() {
    const auto written = [&](const char* content) {
      return Between(head_ + kQuestion.content + format_.user_close,
                     {kQuestion, {ChatRole::kAssistant, content}, kNext}, LastQuestion(kNext.content));
    };
    const std::optional<std::string> empty = written("");
    if (!empty || *empty == between_.substr(format_.user_close.size()) + close_) return;
    format_.absent_answer = written(kBlank) == empty ? NoText::kBlank : NoText::kEmpty;
    format_.empty_answer = *empty;
  }

  void LearnThinking() {
    ChatMessage thinks = kAnswer;
    thinks.content = "<think>\n" + std::string(kThought) + "\n</think>\n\n" + kAnswer.content;
    const Result<std::string> text = run_.Text(std::vector<ChatMessage>{kQuestion, thinks, kNext}, true);
    if (!text.ok() || text->find(kThought) != std::string::npos || text->find(kAnswer.content) == std::string::npos)
      return;
    format_.drop_thinking = true;
    const size_t at = text->find(kAnswer.content);
    format_.keep_newlines_after_thinking = std::string_view(*text).substr(0, at).ends_with(between_ + "\n\n");
    caveats_.emplace_back("the thinking of earlier answers stays in the conversation");
  }

  /// Learns the markup around the reasoning of an earlier answer, if the template renders reasoning.
  void LearnReasoning() {
    ChatMessage reasoned = kAnswer;
    reasoned.reasoning = kThought;
    format_.reasoning = AroundReasoning({kQuestion, reasoned, kNext}, true);
    format_.current_reasoning = AroundReasoning({kQuestion, reasoned}, false);
  }

  std::optional<std::pair<std::string, std::string>> AroundReasoning(const std::vector<ChatMessage>& messages,
                                                                     bool generation) const {
    const Result<std::string> text = run_.Text(messages, generation);
    const std::string before = head_ + kQuestion.content + format_.user_close;
    const size_t thought = text.ok() ? text->find(kThought) : std::string::npos;
    if (thought == std::string::npos || !text->starts_with(before) || thought < before.size()) return std::nullopt;
    const size_t behind = thought + kThought.size(), answer = text->find(kAnswer.content, behind);
    if (answer == std::string::npos || text->find(kThought, behind) != std::string::npos) return std::nullopt;
    return std::pair(text->substr(before.size(), thought - before.size()), text->substr(behind, answer - behind));
  }

  void LearnLateSystem() {
    if (format_.system_place != SystemPlace::kOwnTurn) return;
    const auto around = TextsAround(run_, {kQuestion, kAnswer, kLateSystem, kNext}, true);
    if (!around.ok() || !(*around)[2].starts_with(close_)) return;
    const std::string open = (*around)[2].substr(close_.size());
    if (open != format_.system_open) format_.late_system_open = open;
  }

  const TemplateRun& run_;
  const ChatTemplate::Facts& facts_;
  std::vector<std::string>& caveats_;
  TemplateFormat format_;
  std::string head_;             // before the first question
  std::string before_question_;  // its part that does not open the question
  std::string between_;          // a question and its answer
  std::string close_;            // after an answer
  std::string prompt_;           // opens an answer to be sampled
  bool refuses_system_ = false;
};

}  // namespace

Result<std::vector<std::string>> TextsAround(const TemplateRun& run, const std::vector<ChatMessage>& messages,
                                             bool generation) {
  ASSIGN_OR_RETURN(const std::string text, run.Text(messages, generation));
  std::vector<std::string> around;
  size_t at = 0;
  for (const ChatMessage& message : messages) {
    const size_t found = text.find(message.content, at);
    if (found == std::string::npos || text.find(message.content) != text.rfind(message.content)) {
      return InvalidArgument("the text of a message with the role " + std::string(ChatRoleName(message.role)) +
                             " is not written where it is due");
    }
    around.push_back(text.substr(at, found - at));
    at = found + message.content.size();
  }
  around.push_back(text.substr(at));
  return around;
}

std::pair<size_t, size_t> EndToken(std::string_view close, std::string_view eos) {
  if (!eos.empty() && close.find(eos) != close.npos) return {close.find(eos), close.find(eos) + eos.size()};
  for (const auto& [open, shut] : {std::pair{'<', '>'}, std::pair{'[', ']'}}) {
    const size_t begin = close.find(open);
    const size_t end = begin == close.npos ? close.npos : close.find(shut, begin);
    if (end != close.npos) return {begin, end + 1};
  }
  return {0, 0};
}

Result<TemplateFormat> LearnMessages(const TemplateRun& run, const ChatTemplate::Facts& facts,
                                     std::vector<std::string>* caveats) {
  ASSIGN_OR_RETURN(TemplateFormat format, Learner(run, facts, caveats).Learn());
  const std::vector<ChatMessage> question = {kQuestion};
  const Result<std::string> today = run.Text(question, true), another = run.TextOnAnotherDay(question);
  if (!another.ok() || *today != *another) {
    caveats->emplace_back("the template tells the date; conversations are told that of the server's start");
  }
  return format;
}

}  // namespace ringside
