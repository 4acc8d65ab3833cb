// Implements the chat's commands.
#include <charconv>
#include <utility>

#include "clients/chat/repl/clipboard.h"
#include "clients/chat/repl/own_editor.h"
#include "clients/chat/repl/repl.h"
#include "clients/chat/repl/transcript.h"
#include "clients/wire/models.h"

namespace ringside::client {
namespace {

bool ParseCount(const std::string& text, size_t& count) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  return error == std::errc() && end == text.data() + text.size() && count > 0;
}

size_t MostImageBytesOf(const HttpClient& http) {
  const Outcome<ServedModel> model = GetModel(http);
  return MostImageBytes(model ? model->max_request_bytes : 0);
}

}  // namespace

void Repl::Execute(const Command& command) {
  using Name = Command::Name;
  switch (command.name) {
    case Name::kNone:
      return;
    case Name::kUnknown:
      return screen_.Notice(command.hint);
    case Name::kHelp:
      return screen_.Line(CommandHelp());
    case Name::kRegen:
      return Regenerate();
    case Name::kContinue:
      return Continue();
    case Name::kUndo:
      return static_cast<void>(TakeBack(1));
    case Name::kRewind:
      return Rewind(command.text);
    case Name::kFork:
      return Fork();
    case Name::kNew:
      return StartNew(std::nullopt);
    case Name::kSystem:
      return SetSystem(command.text);
    case Name::kModel:
      return SetModel(command.text);
    case Name::kPreset:
      return UsePreset(command.text);
    case Name::kRead:
      return screen_.Notice(AttachFile(client_.http(), command.text, &next_.files));
    case Name::kImage:
      return screen_.Notice(AttachImage(command.text, MostImageBytesOf(client_.http()), &next_.files));
    case Name::kCopy:
      if (const auto items = Items()) screen_.Notice(CopyAnswer(*items, terminal_, escapes_));
      return;
    case Name::kSet:
      return SetSetting(command.text);
    case Name::kThink:
      return SetThinking(command.text);
    case Name::kStats:
      return SetStats(command.text);
    case Name::kSessions:
      return ListSessions();
    case Name::kResume:
      return Resume(command.text);
    case Name::kTitle:
      return Retitle(command.text);
    case Name::kEdit:
      return Edit(command.text);
    case Name::kSave:
      return Save(command.text);
    case Name::kExport:
      return Export(command.text);
    case Name::kHistory:
      return SetHistory(command.text);
    case Name::kBye:
      leaving_ = true;
      return;
  }
}

void Repl::Regenerate() {
  const std::optional<std::vector<InputMessage>> items = Items();
  if (!items) return;
  if (items->empty()) return screen_.Notice("There is nothing to answer yet.");
  size_t keep = items->size();
  while (keep > 0 && (*items)[keep - 1].role == "assistant") --keep;
  if (keep < items->size()) {
    client_.link().Rewind(conversation_, static_cast<int64_t>(keep));
    if (!WaitForVerb()) return;
  }
  TurnRequest turn;
  turn.conversation = conversation_;
  RunTurn(std::move(turn));
}

void Repl::Continue() {
  const std::optional<std::vector<InputMessage>> items = Items();
  if (!items) return;
  if (items->empty() || items->back().role != "assistant" || items->back().complete) {
    return screen_.Notice("The last answer is complete; there is nothing to continue.");
  }
  TurnRequest turn;
  turn.conversation = conversation_;
  RunTurn(std::move(turn), /* continues_answer= */ true);
}

bool Repl::TakeBack(size_t exchanges) {
  const std::optional<std::vector<InputMessage>> items = Items();
  if (!items) return false;
  size_t keep = items->size(), found = 0;
  while (keep > 0 && found < exchanges) {
    if ((*items)[--keep].role == "user") ++found;
  }
  if (found < exchanges) {
    screen_.Notice(found == 0 ? "There is nothing to remove."
                              : "There are only " + std::to_string(found) + " messages of yours to remove.");
    return false;
  }
  client_.link().Rewind(conversation_, static_cast<int64_t>(keep));
  if (!WaitForVerb()) return false;
  screen_.Notice("Removed: " + FirstLine(WithImageCount((*items)[keep])));
  return true;
}

void Repl::Rewind(const std::string& argument) {
  size_t exchanges = 0;
  if (!ParseCount(argument, exchanges)) {
    return screen_.Notice("/rewind N removes the last N messages and their answers.");
  }
  TakeBack(exchanges);
}

void Repl::SetSystem(const std::string& text) {
  if (text.empty()) {
    const Outcome<ConversationSummary> now =
        conversation_.empty() ? Failure{} : GetConversation(client_.http(), conversation_);
    if (now && now->instructions) screen_.Notice("System message of this conversation: " + *now->instructions);
    return screen_.Notice(next_.system ? "System message of the next conversation: " + *next_.system
                                       : "/system TEXT starts a new conversation with this system message.");
  }
  StartNew(text);
  screen_.Notice("The system message is fixed once the first message is sent.");
}

void Repl::SetSetting(const std::string& argument) {
  if (argument.empty()) {
    const Outcome<ServedModel> model = GetModel(client_.http());
    return screen_.Line(next_.settings.Describe(model ? model->defaults : std::map<std::string, std::string>()));
  }
  const size_t blank = argument.find_first_of(" \t=");
  const std::string name = argument.substr(0, blank);
  const size_t value_at = blank == std::string::npos ? blank : argument.find_first_not_of(" \t=", blank);
  if (value_at == std::string::npos) return screen_.Notice("/set NAME VALUE; /set alone shows all.");
  const std::string value = argument.substr(value_at);
  if (name == "history") return SetHistory(value);
  if (name == "parameter") return SetSetting(value);  // spelling of other chat programs
  if (name == "system") {
    return screen_.Notice("The system message is not a setting: /system TEXT starts a new conversation with it.");
  }
  const Outcome<Done> set = next_.settings.Set(name, value);
  if (!set) return screen_.Notice(set.failure().message);
  screen_.Notice(name + " = " + value);
}

void Repl::SetHistory(const std::string& argument) {
  if (argument == "on" || argument == "off") history_.set_on(argument == "on");
  screen_.Notice(history_.on() ? "Input history is on." : "Input history is off.");
}

void Repl::SetThinking(const std::string& argument) {
  if (argument == "show" || argument == "hide") {
    answer_.set_shows_reasoning(argument == "show");
    return screen_.Notice(answer_.shows_reasoning() ? "Reasoning is shown." : "Reasoning is hidden.");
  }
  if (argument.empty()) {
    const std::map<std::string, std::string> given = next_.settings.Given();
    const auto think = given.find("think");
    return screen_.Notice("Reasoning: " + (think != given.end() ? think->second : "the server's default") +
                          ". /think on, off, low, medium or high; /think show or hide.");
  }
  SetSetting("think " + argument);
}

void Repl::SetStats(const std::string& argument) {
  if (argument == "on" || argument == "off") {
    stats_ = argument == "on";
    return screen_.Notice(stats_ ? "The cost is shown after every answer." : "The cost is no longer shown.");
  }
  if (!argument.empty()) return screen_.Notice("/stats, /stats on or /stats off.");
  screen_.Notice(last_report_ ? DescribeReport(*last_report_) : "There is no answer yet.");
}

void Repl::Save(const std::string& argument) {
  if (argument.empty()) return screen_.Notice("/save FILE.md writes the conversation to a new file.");
  WriteConversation(argument, TranscriptMarkdown);
}

void Repl::Export(const std::string& argument) {
  if (argument.empty()) return screen_.Notice("/export FILE.json writes the conversation to a new file.");
  WriteConversation(argument, TranscriptJson);
}

void Repl::WriteConversation(const std::string& path,
                             std::string (*form)(const ConversationSummary&, const std::vector<InputMessage>&)) {
  if (conversation_.empty()) return screen_.Notice("There is nothing to write yet.");
  const Outcome<ConversationSummary> conversation = GetConversation(client_.http(), conversation_);
  if (!conversation) return screen_.Error(conversation.failure().message);
  const std::optional<std::vector<InputMessage>> items = Items();
  if (!items) return;
  const Outcome<Done> written = WriteNewFile(path, form(*conversation, *items));
  if (!written) return screen_.Error(written.failure().message);
  screen_.Notice("Wrote " + std::to_string(items->size()) + " messages to " + path + ".");
}

void Repl::Edit(const std::string& argument) {
  const Outcome<std::string> text = WriteInEditor(terminal_, argument);
  if (!text) return screen_.Error(text.failure().message);
  if (text->find_first_not_of(" \t\n") == std::string::npos) return screen_.Notice("Nothing was written.");
  screen_.Line(*text);
  history_.Add(*text);
  Ask(*text);
}

}  // namespace ringside::client
