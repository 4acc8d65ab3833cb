// A chat template's reasoning settings and the mapping of requests to them. Learned by rendering: the variables that
// switch reasoning or set its effort, and whether a generation prompt ends inside it. Variants for other variables are
// learned on first use; the most recent are cached.
// THREAD: any.
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
#include "session/chat/templates/chat_template.h"
#include "session/chat/templates/reasoning_spec.h"
#include "session/chat/templates/template_run.h"

namespace ringside {

inline constexpr size_t kMaxTemplateKwargsBytes = 4096;
inline constexpr int kMaxTemplateKwargsDepth = 4;

/// A request's settings as far as the template and the engine support them.
struct SettledReasoning {
  std::shared_ptr<const ChatTemplate> chat;       // null: the template with its defaults
  std::shared_ptr<const ChannelFormat> channels;  // null: the model does not reason
  int64_t budget = -1;                            // tokens; -1 = no limit
  std::string head;                               // TimelineHead::variables
  /// Unsupported settings: "mode", "effort", "budget_tokens", and "template_kwargs." with a name.
  std::vector<std::string> ignored;
};

class ReasoningSettings {
 public:
  using Maker = Result<ChatTemplate> (*)(TemplateRun run, const ChatTemplate::Facts& facts);

  /// For a template with source. `make` learns a template from a run with other variables. Calls with a separate
  /// message are written in `syntax`.
  ReasoningSettings(TemplateRun run, ChatTemplate::Facts facts, Maker make, ToolSyntaxName syntax);
  /// For a named template. `prompt`: its generation prompt. `family`: null = no channels.
  ReasoningSettings(const ChannelFamily* family, std::string_view prompt);

  /// `usual`: the template with its defaults.
  /// ERRORS: kInvalidArgument (chat_template_kwargs) for anything but a JSON object, or if it is too large or too
  /// deeply nested.
  Result<SettledReasoning> Settle(const ReasoningSpec& spec, const ChatTemplate& usual) const;

  /// Number of cached variants.
  size_t kept() const;

 private:
  struct Variant {
    std::shared_ptr<const ChatTemplate> chat;  // null: cannot be learned
    std::shared_ptr<const ChannelFormat> channels;
    std::string head;
  };
  struct Variables;  // as JSON, before they are serialized

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
  std::vector<std::string> switches_;   // boolean variables
  std::string mode_, effort_, budget_;  // variable names; "" = none
  std::string no_effort_;               // value of effort_ that turns reasoning off
  std::shared_ptr<const ChannelFormat> usual_channels_;
  mutable std::mutex mutex_;
  mutable std::list<std::pair<std::string, Variant>> variants_;  // most recently used first
};

}  // namespace ringside
