// The current conversation: creating, finding, leaving it, and following other users in it.
#include <algorithm>
#include <utility>

#include "clients/chat/remembered.h"
#include "clients/chat/repl/repl.h"
#include "clients/chat/repl/transcript.h"
#include "clients/chat/session_list.h"
#include "clients/wire/models.h"

namespace ringside::client {
namespace {

constexpr size_t kListed = 20;
constexpr size_t kShownMessages = 4;
constexpr size_t kShownLines = 40;  // of a message that is shown again

/// The first lines of a message, which may contain files.
std::string Shortened(const std::string& text) {
  size_t end = 0, lines = 0;
  while (end != std::string::npos && lines < kShownLines) {
    end = text.find('\n', end == 0 ? 0 : end + 1);
    ++lines;
  }
  if (end == std::string::npos) return text;
  const auto left = std::count(text.begin() + static_cast<std::ptrdiff_t>(end), text.end(), '\n');
  return text.substr(0, end) + "\n… (" + std::to_string(left) + " more lines)";
}

}  // namespace

std::string Repl::ResumeLine() const {
  // A command that starts its own server gets a new address each time.
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

bool Repl::Attach(const std::string& name) {
  const Outcome<std::string> named = FindConversation(client_.http(), name);
  if (!named) {
    screen_.Error(named.failure().message);
    return false;
  }
  const std::string id = *named;
  const Outcome<ConversationSummary> found = GetConversation(client_.http(), id);
  if (!found) {
    const bool unknown = found.failure().http_status == 404;
    screen_.Error(unknown ? "The server has no conversation " + id + "." : found.failure().message);
    return false;
  }
  conversation_ = id;
  next_.system.reset();
  next_.model.clear();
  last_report_.reset();
  RememberLastConversation(server_.url, conversation_);
  ShowLastMessages();
  return true;
}

void Repl::ShowLastMessages() {
  const std::optional<std::vector<InputMessage>> items = Items();
  if (!items) return;
  screen_.Notice("Resumed " + conversation_ + ", " + std::to_string(items->size()) + " messages.");
  ShowMessages(*items, items->size() > kShownMessages ? items->size() - kShownMessages : 0);
  seen_ = items->size();
  if (!items->empty() && items->back().role == "assistant" && !items->back().complete) {
    screen_.Notice("[this answer is incomplete; /continue resumes it]");
  }
}

void Repl::ShowMessages(const std::vector<InputMessage>& items, size_t first, const std::string& other) {
  const std::string who = other.empty() ? "" : "[" + other + "] ";
  for (size_t i = first; i < items.size(); ++i) {
    const InputMessage& message = items[i];
    if (message.role != "assistant") {
      screen_.Said(who + (message.role == "user" ? ">>> " : message.role + ": "), Shortened(WithImageCount(message)));
      continue;
    }
    if (!other.empty()) screen_.Notice("[answer to " + other + "]");
    answer_.Begin();
    answer_.AddText(message.text);
    answer_.End();
  }
}

void Repl::CatchUp() {
  const std::optional<std::vector<InputMessage>> items = Items();
  if (!items) return;
  if (seen_ && items->size() > *seen_) {
    ShowMessages(*items, *seen_, "another client");
  } else if (seen_ && items->size() < *seen_) {
    screen_.Notice("[meanwhile another client removed messages: " + std::to_string(items->size()) + " are left]");
  }
  seen_ = items->size();
}

void Repl::CatchUpIfChanged() {
  if (conversation_.empty()) return;
  const Outcome<ConversationSummary> now = GetConversation(client_.http(), conversation_);
  const bool same = now && seen_ && now->messages == static_cast<int64_t>(*seen_);
  if (now && !same) CatchUp();
}

bool Repl::EnsureConversation(const std::string& first_message) {
  if (!conversation_.empty()) return true;
  const Outcome<std::string> made = CreateConversation(client_.http(), TitleOf(first_message));
  if (!made) {
    screen_.Error(made.failure().message);
    return false;
  }
  conversation_ = *made;
  made_.push_back(conversation_);
  seen_ = 0;
  if (!ephemeral()) RememberLastConversation(server_.url, conversation_);
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

void Repl::Fork() {
  if (conversation_.empty()) return screen_.Notice("There is nothing to copy yet.");
  client_.link().Fork(conversation_, std::nullopt);
  const std::optional<ServerEvent> forked = WaitForVerb();
  if (!forked) return;
  const std::string before = std::exchange(conversation_, forked->session);
  made_.push_back(conversation_);
  if (!ephemeral()) RememberLastConversation(server_.url, conversation_);
  screen_.Notice("Continuing in the copy " + conversation_ + "; /resume " + before + " goes back.");
}

void Repl::StartNew(std::optional<std::string> system) {
  const std::string before = std::exchange(conversation_, "");
  seen_.reset();
  next_.system = std::move(system);
  last_report_.reset();
  screen_.Notice("A new conversation" + (before.empty() ? "." : "; /resume " + before + " goes back."));
}

void Repl::ListSessions() {
  const Outcome<std::vector<ConversationSummary>> sessions = ListConversations(client_.http(), kListed);
  if (!sessions) return screen_.Error(sessions.failure().message);
  listed_.clear();
  for (const ConversationSummary& session : *sessions) listed_.push_back(session.id);
  RememberListed(server_.url, listed_);
  screen_.Line(DescribeSessions(*sessions, conversation_));
}

void Repl::Resume(const std::string& argument) {
  if (argument.empty()) return screen_.Notice("/resume ID; /sessions lists the conversations.");
  Attach(argument);
}

void Repl::Retitle(const std::string& title) {
  if (conversation_.empty()) return screen_.Notice("The first message gives a conversation its title.");
  if (title.empty()) return screen_.Notice("/title TEXT renames the conversation.");
  const Outcome<Done> set = SetTitle(client_.http(), conversation_, title);
  if (!set) return screen_.Error(set.failure().message);
  screen_.Notice("Title: " + title);
}

void Repl::DeleteEphemeral() {
  for (const std::string& id : made_) {
    const Outcome<Done> deleted = DeleteConversation(client_.http(), id);
    if (!deleted) screen_.Error("The conversation " + id + " is still on the server: " + deleted.failure().message);
  }
  if (!made_.empty()) screen_.Notice("The conversation is deleted.");
}

}  // namespace ringside::client
