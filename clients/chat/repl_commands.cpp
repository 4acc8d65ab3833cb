// What the chat's commands do.
#include <charconv>
#include <utility>

#include "clients/chat/repl.h"
#include "clients/chat/session_list.h"
#include "clients/chat/transcript.h"
#include "clients/wire/models.h"

namespace ringside::client {
namespace {

constexpr size_t kListed = 20;
constexpr size_t kShownMessages = 4;

bool ParseCount(const std::string& text, size_t& count) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  return error == std::errc() && end == text.data() + text.size() && count > 0;
}

}  // namespace

std::string Repl::ResumeLine() const {
  // A command that starts the server itself has an address of its own each time.
  if (!options_.command.empty()) return options_.command + " --session " + conversation_;
  std::string line = "ringside chat --session " + conversation_;
  if (!server_.url_text.empty()) line += " --url " + server_.url_text;
  return line;
}

bool Repl::Start() {
  std::string wanted = options_.session;
  if (options_.continue_last) {
    const Outcome<std::string> last = FindLastConversation(client_.http());
    if (!last) {
      screen_.Error(last.failure().message);
      return false;
    }
    wanted = *last;
  }
  if (!wanted.empty()) return Attach(wanted);
  const Outcome<ServedModel> model = GetModel(client_.http());
  if (!model) {
    screen_.Error(model.failure().message);
    if (model.failure().http_status == 0) screen_.Error("Start it with ringside-server, or name another with --url.");
    return false;
  }
  screen_.Notice("ringside · " + model->name + " · /help for commands, Ctrl-D to leave");
  return true;
}

bool Repl::Attach(const std::string& id) {
  if (!IsConversationId(id)) {
    screen_.Error("\"" + id + "\" is no conversation's id (conv_...); /sessions lists them.");
    return false;
  }
  const Outcome<ConversationSummary> found = GetConversation(client_.http(), id);
  if (!found) {
    const bool unknown = found.failure().http_status == 404;
    screen_.Error(unknown ? "The server has no conversation " + id + "." : found.failure().message);
    return false;
  }
  conversation_ = id;
  system_.reset();
  last_report_.reset();
  RememberLastConversation(server_.url, conversation_);
  ShowLastMessages();
  return true;
}

void Repl::ShowLastMessages() {
  const std::optional<std::vector<InputMessage>> items = Items();
  if (!items) return;
  screen_.Notice("Going on with " + conversation_ + ", " + std::to_string(items->size()) + " messages.");
  const size_t first = items->size() > kShownMessages ? items->size() - kShownMessages : 0;
  for (size_t i = first; i < items->size(); ++i) {
    const InputMessage& message = (*items)[i];
    screen_.Notice((message.role == "user"        ? ">>> "
                    : message.role == "assistant" ? ""
                                                  : message.role + ": ") +
                   message.text);
  }
  if (!items->empty() && items->back().role == "assistant" && !items->back().complete) {
    screen_.Notice("[this answer was cut; /continue lets it go on]");
  }
}

bool Repl::EnsureConversation() {
  if (!conversation_.empty()) return true;
  const Outcome<std::string> made = CreateConversation(client_.http());
  if (!made) {
    screen_.Error(made.failure().message);
    return false;
  }
  conversation_ = *made;
  RememberLastConversation(server_.url, conversation_);
  return true;
}

std::optional<std::vector<InputMessage>> Repl::Items() {
  if (conversation_.empty()) return std::vector<InputMessage>();
  Outcome<std::vector<InputMessage>> items = GetItems(client_.http(), conversation_);
  if (!items) {
    screen_.Error(items.failure().message);
    return std::nullopt;
  }
  return std::move(*items);
}

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
    case Name::kSet:
      return SetSetting(command.text);
    case Name::kStats:
      return SetStats(command.text);
    case Name::kSessions:
      return ListSessions();
    case Name::kResume:
      return Resume(command.text);
    case Name::kSave:
      return Save(command.text);
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
  if (items->back().role == "assistant") {
    client_.link().Rewind(conversation_, static_cast<int64_t>(items->size()) - 1);
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
    return screen_.Notice("The last answer is whole; there is nothing to go on with.");
  }
  TurnRequest turn;
  turn.conversation = conversation_;
  RunTurn(std::move(turn));
}

bool Repl::TakeBack(size_t exchanges) {
  const std::optional<std::vector<InputMessage>> items = Items();
  if (!items) return false;
  size_t keep = items->size(), found = 0;
  while (keep > 0 && found < exchanges) {
    if ((*items)[--keep].role == "user") ++found;
  }
  if (found < exchanges) {
    screen_.Notice(found == 0 ? "There is nothing to take back."
                              : "There are only " + std::to_string(found) + " messages of yours to take back.");
    return false;
  }
  client_.link().Rewind(conversation_, static_cast<int64_t>(keep));
  if (!WaitForVerb()) return false;
  screen_.Notice("Taken back: " + FirstLine((*items)[keep].text));
  return true;
}

void Repl::Rewind(const std::string& argument) {
  size_t exchanges = 0;
  if (!ParseCount(argument, exchanges)) {
    return screen_.Notice("/rewind N takes back the last N messages and their answers.");
  }
  TakeBack(exchanges);
}

void Repl::Fork() {
  if (conversation_.empty()) return screen_.Notice("There is nothing to copy yet.");
  client_.link().Fork(conversation_, std::nullopt);
  const std::optional<ServerEvent> forked = WaitForVerb();
  if (!forked) return;
  const std::string before = std::exchange(conversation_, forked->session);
  RememberLastConversation(server_.url, conversation_);
  screen_.Notice("Going on in the copy " + conversation_ + "; /resume " + before + " goes back.");
}

void Repl::StartNew(std::optional<std::string> system) {
  const std::string before = std::exchange(conversation_, "");
  system_ = std::move(system);
  last_report_.reset();
  screen_.Notice("A new conversation" + (before.empty() ? "." : "; /resume " + before + " goes back."));
}

void Repl::SetSystem(const std::string& text) {
  if (text.empty()) {
    return screen_.Notice(system_ ? "System message of the next conversation: " + *system_
                                  : "/system TEXT starts a new conversation with this system message.");
  }
  StartNew(text);
  screen_.Notice("Its system message is pinned with its first token and stays as it is from then on.");
}

void Repl::SetSetting(const std::string& argument) {
  if (argument.empty()) {
    const Outcome<ServedModel> model = GetModel(client_.http());
    return screen_.Line(settings_.Describe(model ? model->defaults : std::map<std::string, std::string>()));
  }
  const size_t blank = argument.find_first_of(" \t=");
  const std::string name = argument.substr(0, blank);
  const size_t value_at = blank == std::string::npos ? blank : argument.find_first_not_of(" \t=", blank);
  if (value_at == std::string::npos) return screen_.Notice("/set NAME VALUE; /set alone shows all.");
  const std::string value = argument.substr(value_at);
  if (name == "history") return SetHistory(value);
  const Outcome<Done> set = settings_.Set(name, value);
  if (!set) return screen_.Notice(set.failure().message);
  screen_.Notice(name + " = " + value);
}

void Repl::SetHistory(const std::string& argument) {
  if (argument == "on" || argument == "off") history_.set_on(argument == "on");
  screen_.Notice(history_.on() ? "What is typed is remembered." : "What is typed is not remembered.");
}

void Repl::SetStats(const std::string& argument) {
  if (argument == "on" || argument == "off") {
    stats_ = argument == "on";
    return screen_.Notice(stats_ ? "After every answer: what it cost." : "Costs are no longer shown.");
  }
  if (!argument.empty()) return screen_.Notice("/stats, /stats on or /stats off.");
  screen_.Notice(last_report_ ? DescribeReport(*last_report_) : "There is no answer to tell of yet.");
}

void Repl::ListSessions() {
  const Outcome<std::vector<ConversationSummary>> sessions = ListConversations(client_.http(), kListed);
  if (!sessions) return screen_.Error(sessions.failure().message);
  listed_.clear();
  for (const ConversationSummary& session : *sessions) listed_.push_back(session.id);
  screen_.Line(DescribeSessions(*sessions, conversation_));
}

void Repl::Resume(const std::string& argument) {
  if (argument.empty()) return screen_.Notice("/resume ID; /sessions lists the conversations.");
  size_t number = 0;
  const bool numbered = ParseCount(argument, number) && number <= listed_.size();
  Attach(numbered ? listed_[number - 1] : argument);
}

void Repl::Save(const std::string& argument) {
  if (argument.empty()) return screen_.Notice("/save FILE.md writes the conversation to a new file.");
  const std::optional<std::vector<InputMessage>> items = Items();
  if (!items) return;
  const Outcome<Done> saved = SaveTranscript(argument, conversation_, *items);
  if (!saved) return screen_.Error(saved.failure().message);
  screen_.Notice("Wrote " + std::to_string(items->size()) + " messages to " + argument + ".");
}

}  // namespace ringside::client
