// Commands that prepare the next conversation: its model, and presets.
#include <algorithm>
#include <charconv>
#include <utility>

#include "clients/chat/repl/presets.h"
#include "clients/chat/repl/repl.h"
#include "clients/chat/repl/transcript.h"
#include "clients/wire/models.h"

namespace ringside::client {
namespace {

std::string DescribeModels(const std::vector<ServedModel>& models, const std::string& chosen) {
  std::string text;
  for (size_t i = 0; i < models.size(); ++i) {
    const ServedModel& model = models[i];
    const bool current = chosen.empty() ? i == 0 : model.name == chosen;
    text += (i > 0 ? "\n" : "") + std::string(current ? "* " : "  ") + std::to_string(i + 1) + "  " + model.name;
    if (!model.parent.empty()) text += "  (of " + model.parent + ")";
    if (model.max_input_tokens > 0) text += "  " + std::to_string(model.max_input_tokens) + " tokens";
  }
  return text;
}

/// The model with this name or this number in the list; null if there is none.
const ServedModel* FindModel(const std::vector<ServedModel>& models, const std::string& name) {
  const auto named = std::ranges::find(models, name, &ServedModel::name);
  if (named != models.end()) return &*named;
  size_t number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  const bool listed = error == std::errc() && end == name.data() + name.size() && number >= 1;
  return listed && number <= models.size() ? &models[number - 1] : nullptr;
}

std::string DescribePresets(const Presets& presets) {
  std::string text;
  for (const auto& [name, preset] : presets) {
    std::string line = "  " + name;
    line.resize(std::max<size_t>(line.size() + 1, 16), ' ');
    std::string parts = FirstLine(preset.system);
    for (const auto& [setting, value] : preset.settings.Given()) {
      parts += std::string(parts.empty() ? "" : "; ") + setting + " = " + value;
    }
    if (!preset.model.empty()) parts += std::string(parts.empty() ? "" : "; ") + "model " + preset.model;
    text += line + parts + "\n";
  }
  return text + "/preset NAME applies one; /preset save NAME stores the current system message, settings and model.";
}

}  // namespace

void Repl::SetModel(const std::string& argument) {
  const Outcome<std::vector<ServedModel>> models = ListModels(client_.http());
  if (!models) return screen_.Error(models.failure().message);
  if (argument.empty()) return screen_.Line(DescribeModels(*models, next_.model));
  const ServedModel* model = FindModel(*models, argument);
  if (model == nullptr) {
    return screen_.Notice("The server has no model \"" + argument + "\":\n" + DescribeModels(*models, next_.model));
  }
  if (!conversation_.empty()) StartNew(next_.system);
  next_.model = model->name;
  screen_.Notice("Model of the next conversation: " + next_.model);
}

void Repl::UsePreset(const std::string& argument) {
  const size_t blank = argument.find(' ');
  const std::string verb = blank == std::string::npos ? "" : argument.substr(0, blank);
  if (verb == "save" || verb == "delete") {
    const std::string name = argument.substr(argument.find_first_not_of(' ', blank));
    std::string system = next_.system.value_or("");
    if (verb == "save" && system.empty() && !conversation_.empty()) {
      const Outcome<ConversationSummary> now = GetConversation(client_.http(), conversation_);
      if (now) system = now->instructions.value_or("");
    }
    const Outcome<Done> done =
        verb == "save" ? SavePreset(name, {system, next_.model, next_.settings}) : DeletePreset(name);
    if (!done) return screen_.Error(done.failure().message);
    return screen_.Notice(verb == "save" ? "Saved the preset " + name + "." : "Deleted the preset " + name + ".");
  }
  const Presets presets = LoadPresets();
  if (argument.empty()) return screen_.Line(DescribePresets(presets));
  const auto preset = presets.find(argument);
  if (preset == presets.end()) return screen_.Notice("There is no preset \"" + argument + "\"; /preset lists them.");
  next_.settings = preset->second.settings;
  const bool renews = !preset->second.system.empty() || !preset->second.model.empty();
  if (renews) {
    // A conversation keeps its system message.
    StartNew(preset->second.system.empty() ? std::nullopt : std::optional(preset->second.system));
    next_.model = preset->second.model;
  }
  screen_.Notice("Preset " + argument + (renews ? " applies to this new conversation." : " applies from now on."));
}

}  // namespace ringside::client
