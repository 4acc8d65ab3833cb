// What a model's chat template knows of reasoning, and how a request's wishes reach it. Learned by rendering: which
// variables switch reasoning or say how much there is to be, and whether a generation prompt ends inside it. Templates
// with other variables are learned when they are first asked for; the newest are kept. Any thread.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "engine/text/channels/channel_families.h"
#include "session/chat/chat_template.h"
#include "session/chat/reasoning_spec.h"
#include "session/chat/template_run.h"

namespace ringside {

inline constexpr size_t kMaxTemplateKwargsBytes = 4096;
inline constexpr int kMaxTemplateKwargsDepth = 4;

/// A request's wishes as far as the template and the engine honour them.
struct SettledReasoning {
  std::shared_ptr<const ChatTemplate> chat;       // null: the template as it is by default
  std::shared_ptr<const ChannelFormat> channels;  // null: the model's answers have none
  int64_t budget = -1;                            // tokens; -1 = no limit
  std::string head;                               // TimelineHead::variables
  /// "mode", "effort", "budget_tokens", and "template_kwargs." with a name.
  std::vector<std::string> ignored;
};

class ReasoningSettings {
 public:
  using Maker = Result<ChatTemplate> (*)(TemplateRun run, const ChatTemplate::Facts& facts);

  /// For a template with a source. `make` learns a template from a run with other variables. Calls with a separate
  /// message are written in `syntax`.
  ReasoningSettings(TemplateRun run, ChatTemplate::Facts facts, Maker make, ToolSyntaxName syntax);
  /// For a named template. `prompt`: its generation prompt. `family`: null = no channels.
  ReasoningSettings(const ChannelFamily* family, std::string_view prompt);

  /// `usual`: the template as it is by default. kInvalidArgument (chat_template_kwargs) for anything but a
  /// JSON object, and for one that is too large or nested too deeply.
  Result<SettledReasoning> Settle(const ReasoningSpec& spec, const ChatTemplate& usual) const;

  /// Templates learned for other variables so far, as far as they are kept.
  size_t kept() const;

 private:
  struct Variant {
    std::shared_ptr<const ChatTemplate> chat;  // null: it cannot be learned
    std::shared_ptr<const ChannelFormat> channels;
    std::string head;
  };
  struct Variables;  // as JSON, before they are one text

  void LearnSwitches();
  void LearnClose();
  std::shared_ptr<const ChannelFormat> ChannelsAfter(std::string_view prompt) const;
  std::optional<std::string> Prompt(const TemplateRun& run) const;
  bool Changes(std::string_view name, std::string_view a, std::string_view b) const;
  std::string EffortFor(const std::string& effort) const;
  Status ReadKwargs(const ReasoningSpec& spec, Variables* variables, std::vector<std::string>* ignored) const;
  void SetMode(const ReasoningSpec& spec, Variables* variables, std::vector<std::string>* ignored) const;
  Variant Learn(const std::string& variables, bool skips, const ChatTemplate& usual) const;
  Variant Find(const std::string& variables, bool skips, const ChatTemplate& usual) const;

  const ChannelFamily* family_ = nullptr;
  std::optional<TemplateRun> run_;
  ChatTemplate::Facts facts_;
  Maker make_ = nullptr;
  ToolSyntaxName syntax_ = ToolSyntaxName::kHermes;
  std::string close_;                   // markup between reasoning and answer; "" = the family's
  std::string prompt_;                  // the generation prompt, or a text that ends with it
  std::vector<std::string> switches_;   // variables that are true or false
  std::string mode_, effort_, budget_;  // variables; "" = none
  std::string no_effort_;               // the value of effort_ that turns reasoning off
  std::shared_ptr<const ChannelFormat> usual_channels_;
  mutable std::mutex mutex_;
  mutable std::list<std::pair<std::string, Variant>> variants_;  // the last one used first
};

}  // namespace ringside
