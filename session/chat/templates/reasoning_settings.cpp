#include "session/chat/templates/reasoning_settings.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/json/json_tree.h"
#include "session/chat/templates/probe_messages.h"

namespace ringside {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr size_t kMostVariants = 16;
constexpr size_t kMostCloseBytes = 64;
constexpr std::array<std::string_view, 3> kSwitches = {"enable_thinking", "thinking", "reasoning"};
constexpr std::array<std::string_view, 2> kEfforts = {"reasoning_effort", "thinking_effort"};
// Effort levels in ascending order. A template without the requested one gets the nearest that it has.
constexpr std::array<std::string_view, 6> kLevels = {"minimal", "low", "medium", "high", "xhigh", "max"};
constexpr std::array<std::string_view, 8> kOwn = {"messages",  "tools",     "documents", "add_generation_prompt",
                                                  "bos_token", "eos_token", "range",     "namespace"};

bool IsVariableByte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

std::string Quoted(std::string_view word) { return '"' + std::string(word) + '"'; }

/// True if `name` occurs as a whole word in the source.
bool Mentions(std::string_view source, std::string_view name) {
  for (size_t at = source.find(name); at != source.npos; at = source.find(name, at + 1)) {
    const size_t end = at + name.size();
    if ((at == 0 || !IsVariableByte(source[at - 1])) && (end == source.size() || !IsVariableByte(source[end])))
      return true;
  }
  return false;
}

/// Templates insert variables as markup, so no value may spell a special token.
bool IsHarmless(const OrderedJson& value, int depth) {
  if (depth > kMaxTemplateKwargsDepth) return false;
  const auto harmless_text = [](const std::string& text) {
    return std::ranges::all_of(text, [](char c) {
      return IsVariableByte(c) || std::string_view(" .,:;+-/").find(c) != std::string_view::npos;
    });
  };
  if (value.is_string()) return harmless_text(value.get_ref<const std::string&>());
  if (!value.is_structured()) return true;
  return std::ranges::all_of(value.items(), [&](const auto& item) {
    return (!value.is_object() || harmless_text(item.key())) && IsHarmless(item.value(), depth + 1);
  });
}

bool IsOff(const ReasoningSpec& spec) {
  using Mode = ReasoningSpec::Mode;
  if (spec.mode == Mode::kOff || spec.effort == "none") return true;
  return spec.mode == Mode::kDefault && spec.effort.empty() && spec.budget_tokens == 0;
}

bool IsOn(const ReasoningSpec& spec) {
  return !IsOff(spec) && (spec.mode == ReasoningSpec::Mode::kOn || !spec.effort.empty());
}

}  // namespace

struct ReasoningSettings::Variables {
  OrderedJson json = OrderedJson::object();
  bool skips = false;  // close the reasoning before it starts
};

ReasoningSettings::ReasoningSettings(const ChannelFamily* family, std::string_view prompt)
    : family_(family), prompt_(prompt) {
  usual_channels_ = ChannelsAfter(prompt_);
}

ReasoningSettings::ReasoningSettings(TemplateRun run, ChatTemplate::Facts facts, Maker make, ToolSyntaxName syntax)
    : family_(FamilyOfTemplate(run.source())),
      run_(std::move(run)),
      facts_(std::move(facts)),
      make_(make),
      syntax_(syntax) {
  prompt_ = Prompt(*run_).value_or("");
  LearnClose();
  usual_channels_ = ChannelsAfter(prompt_);
  LearnSwitches();
}

std::shared_ptr<const ChannelFormat> ReasoningSettings::ChannelsAfter(std::string_view prompt) const {
  if (family_ == nullptr) return nullptr;
  ChannelFormat format = FormatAfter(*family_, prompt);
  if (!close_.empty()) format.forced_close = close_;
  const ToolSyntax& syntax = SyntaxOf(syntax_);
  format.call_open = syntax.opening;
  format.call_next = syntax.next;
  format.call_arguments = syntax.before_arguments;
  format.call_close = WithId(syntax.after_arguments, std::string(kModelIdBytes, '0')) + std::string(syntax.close);
  return std::make_shared<const ChannelFormat>(std::move(format));
}

std::optional<std::string> ReasoningSettings::Prompt(const TemplateRun& run) const {
  const Result<std::string> text = run.Text({&kQuestion, 1}, true);
  if (!text.ok()) return std::nullopt;
  const size_t at = text->rfind(kQuestion.content);
  return at == std::string::npos ? *text : text->substr(at + kQuestion.content.size());
}

// True if the rendering of a question depends on which of two values `name` has.
bool ReasoningSettings::Changes(std::string_view name, std::string_view a, std::string_view b) const {
  if (!Mentions(run_->source(), name)) return false;
  const auto text = [&](std::string_view value) -> std::optional<std::string> {
    const auto run = run_->With("{\"" + std::string(name) + "\": " + std::string(value) + "}");
    if (!run.ok()) return std::nullopt;
    const Result<std::string> written = run->Text({&kQuestion, 1}, true);
    return written.ok() ? std::optional(*written) : std::nullopt;
  };
  const std::optional<std::string> first = text(a), second = text(b);
  return first && second && *first != *second;
}

// As the template writes it after the reasoning of the last answer.
void ReasoningSettings::LearnClose() {
  if (family_ == nullptr || family_->layout != ChannelFormat::Layout::kSpan) return;
  constexpr std::string_view kThought = "Zth6quvx";
  std::vector<ChatMessage> talk = {kQuestion, kAnswer};
  talk.back().reasoning = kThought;
  const Result<std::string> text = run_->Text(talk, false);
  const size_t thought = text.ok() ? text->find(kThought) : std::string::npos;
  if (thought == std::string::npos) return;
  const size_t end = thought + kThought.size(), answer = text->find(kAnswer.content, end);
  if (answer == std::string::npos || answer - end > kMostCloseBytes) return;
  std::string close = text->substr(end, answer - end);
  if (close.find(family_->close) != std::string::npos) close_ = std::move(close);
}

void ReasoningSettings::LearnSwitches() {
  for (const std::string_view name : kSwitches) {
    if (Changes(name, "true", "false")) switches_.emplace_back(name);
  }
  if (Changes("thinking_mode", "\"enabled\"", "\"disabled\"")) mode_ = "thinking_mode";
  for (const std::string_view name : kEfforts) {
    for (size_t i = 1; i < kLevels.size(); ++i) {
      if (Changes(name, Quoted(kLevels[i - 1]), Quoted(kLevels[i]))) effort_ = name;
    }
    if (Changes(name, Quoted("low"), Quoted("high")) || Changes(name, Quoted("low"), Quoted("max"))) effort_ = name;
  }
  for (const std::string word : {"none", "no_think"}) {
    const std::string &source = run_->source(), quoted = Quoted(word);
    const bool spelled = source.find("'" + word + "'") != source.npos || source.find(quoted) != source.npos;
    if (!effort_.empty() && spelled && Changes(effort_, quoted, "\"high\"")) no_effort_ = word;
  }
  if (Changes("thinking_budget", "512", "1024")) budget_ = "thinking_budget";
}

// The effort that the template accepts: the requested one, or the nearest; "" = none.
std::string ReasoningSettings::EffortFor(const std::string& effort) const {
  const auto takes = [&](std::string_view word) {
    const bool common = word == "low" || word == "medium" || word == "high";
    if (!common && !Mentions(run_->source(), word)) return false;
    const auto run = run_->With("{\"" + effort_ + "\": " + Quoted(word) + "}");
    return run.ok() && Prompt(*run).has_value();
  };
  const auto* const asked = std::ranges::find(kLevels, effort);
  if (effort_.empty() || asked == kLevels.end()) return "";
  const auto level = static_cast<size_t>(asked - kLevels.begin());
  for (size_t distance = 0; distance < kLevels.size(); ++distance) {
    if (level + distance < kLevels.size() && takes(kLevels[level + distance])) {
      return std::string(kLevels[level + distance]);
    }
    if (distance <= level && takes(kLevels[level - distance])) return std::string(kLevels[level - distance]);
  }
  return "";
}

Status ReasoningSettings::ReadKwargs(const ReasoningSpec& spec, Variables* variables,
                                     std::vector<std::string>* ignored) const {
  if (spec.template_kwargs.empty()) return Status::Ok();
  const auto refuse = [](const std::string& why) { return InvalidArgument(why, "chat_template_kwargs"); };
  if (spec.template_kwargs.size() > kMaxTemplateKwargsBytes) {
    return refuse("chat_template_kwargs have more than " + std::to_string(kMaxTemplateKwargsBytes) + " bytes");
  }
  JsonFault fault;
  const OrderedJson json = ParseOrderedJsonTree(spec.template_kwargs, {.depth = kMaxTemplateKwargsDepth + 1}, &fault);
  if (fault.kind == JsonFault::Kind::kDepth) {
    return refuse("chat_template_kwargs are nested deeper than " + std::to_string(kMaxTemplateKwargsDepth));
  }
  if (!json.is_object()) return refuse("chat_template_kwargs are a JSON object");
  for (const auto& [name, value] : json.items()) {
    const bool read = run_ && !name.empty() && std::ranges::all_of(name, IsVariableByte) &&
                      std::ranges::find(kOwn, name) == kOwn.end() && Mentions(run_->source(), name);
    if (read && IsHarmless(value, 1)) {
      variables->json[name] = value;
    } else {
      ignored->push_back("template_kwargs." + name);
    }
  }
  return Status::Ok();
}

void ReasoningSettings::SetMode(const ReasoningSpec& spec, Variables* variables,
                                std::vector<std::string>* ignored) const {
  const bool off = IsOff(spec), on = IsOn(spec);
  const auto set = [&](const std::string& name, OrderedJson value) {
    if (!variables->json.contains(name)) variables->json[name] = std::move(value);
  };
  if (off || on) {
    for (const std::string& name : switches_) set(name, on);
    if (!mode_.empty()) set(mode_, on ? "enabled" : "disabled");
  }
  const bool has_switch = !switches_.empty() || !mode_.empty() || !no_effort_.empty();
  if (off && !no_effort_.empty()) set(effort_, no_effort_);
  if (off && !has_switch) {
    if (budget_.empty()) variables->skips = family_ != nullptr;
  } else if (on && !has_switch && family_ == nullptr && spec.mode == ReasoningSpec::Mode::kOn) {
    ignored->emplace_back("mode");
  }
  if (off && !budget_.empty()) set(budget_, 0);
  if (!off && !spec.effort.empty()) {
    const std::string effort = EffortFor(spec.effort);
    const bool level = std::ranges::find(kLevels, spec.effort) != kLevels.end();
    const bool switched = level && (!switches_.empty() || !mode_.empty());  // on: it has no other effort
    if (!effort.empty()) {
      set(effort_, effort);
    } else if (!switched) {
      ignored->emplace_back("effort");
    }
  }
  if (!off && spec.budget_tokens) {
    if (!budget_.empty()) set(budget_, *spec.budget_tokens);
    if (family_ == nullptr) ignored->emplace_back("budget_tokens");
  }
}

ReasoningSettings::Variant ReasoningSettings::Learn(const std::string& variables, bool skips,
                                                    const ChatTemplate& usual) const {
  Variant variant;
  std::string prompt = prompt_;
  ChatTemplate chat = usual;
  if (run_ && variables != "{}") {
    Result<TemplateRun> run = run_->With(variables);
    if (!run.ok()) return variant;
    const std::optional<std::string> written = Prompt(*run);
    if (!written) return variant;
    prompt = *written;
    Result<ChatTemplate> made = make_(*std::move(run), facts_);
    if (!made.ok()) return variant;
    chat = *std::move(made);
    if (!chat.renders_whole() && !chat.WritesMessagesLike(usual)) variant.head = variables;
  }
  if (skips) {
    std::string markup(family_->skip);
    // Reasoning opened by the prompt is only closed.
    if (FormatAfter(*family_, prompt).start == ChannelFormat::Start::kReasoning) {
      const size_t open = markup.find(family_->open);
      if (open != std::string::npos) markup.erase(0, open + family_->open.size());
      if (prompt.ends_with('\n') && markup.starts_with('\n')) markup.erase(0, 1);
    }
    chat = chat.WithPromptEnd(markup);
    prompt += markup;
  }
  variant.chat = std::make_shared<const ChatTemplate>(std::move(chat));
  variant.channels = ChannelsAfter(prompt);
  return variant;
}

ReasoningSettings::Variant ReasoningSettings::Find(const std::string& variables, bool skips,
                                                   const ChatTemplate& usual) const {
  const std::string key = (skips ? "-" : "+") + variables;
  const auto has_key = [&](const auto& entry) { return entry.first == key; };
  {
    std::lock_guard lock(mutex_);
    const auto found = std::ranges::find_if(variants_, has_key);
    if (found != variants_.end()) {
      variants_.splice(variants_.begin(), variants_, found);
      return found->second;
    }
  }
  Variant variant = Learn(variables, skips, usual);  // takes milliseconds
  std::lock_guard lock(mutex_);
  if (std::ranges::find_if(variants_, has_key) == variants_.end()) variants_.emplace_front(key, variant);
  if (variants_.size() > kMostVariants) variants_.pop_back();
  return variant;
}

size_t ReasoningSettings::kept() const {
  std::lock_guard lock(mutex_);
  return variants_.size();
}

Result<SettledReasoning> ReasoningSettings::Settle(const ReasoningSpec& spec, const ChatTemplate& usual) const {
  SettledReasoning settled;
  settled.channels = usual_channels_;
  if (spec.says_nothing()) return settled;
  Variables variables;
  RETURN_IF_ERROR(ReadKwargs(spec, &variables, &settled.ignored));
  SetMode(spec, &variables, &settled.ignored);
  if (family_ != nullptr && spec.budget_tokens && !IsOff(spec)) {
    settled.budget = std::max<int64_t>(0, *spec.budget_tokens);
  }
  if (variables.json.empty() && !variables.skips) return settled;
  const Variant variant = Find(variables.json.dump(), variables.skips, usual);
  if (variant.chat == nullptr) {
    // With these variables the template fails, or its output is not a valid conversation.
    const OrderedJson asked = ParseOrderedJsonTree(spec.template_kwargs);
    for (const auto& [name, value] : variables.json.items()) {
      const bool own = asked.is_object() && asked.contains(name);
      settled.ignored.push_back(own               ? "template_kwargs." + name
                                : name == effort_ ? "effort"
                                : name == budget_ ? "budget_tokens"
                                                  : "mode");
    }
    return settled;
  }
  settled.chat = variant.chat;
  settled.channels = variant.channels;
  settled.head = variant.head;
  return settled;
}

}  // namespace ringside
