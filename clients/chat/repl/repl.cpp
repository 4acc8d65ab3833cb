#include "clients/chat/repl/repl.h"

#include <utility>

#include "clients/chat/remembered.h"
#include "clients/chat/repl/completion.h"

namespace ringside::client {
namespace {

constexpr int kEscapeTimeoutMs = 50;

std::string HistoryFile(bool wanted) {
  const std::string folder = wanted ? StateFolder() : "";
  return folder.empty() ? "" : folder + "/history";
}

}  // namespace

Repl::Repl(const ServerAccess& server, const ChatOptions& options, Terminal& terminal)
    : server_(server),
      options_(options),
      terminal_(terminal),
      escapes_(Terminal::UnderstandsEscapes()),
      screen_(terminal, WantsColour(options.colour, true), escapes_),
      client_(server),
      history_(HistoryFile(options.history)),
      editor_(history_, [this](std::string_view line) { return CompleteLine(line, listed_); }),
      next_{.system = options.system, .settings = options.settings, .model = options.model, .files = {}},
      stats_(options.stats),
      listed_(ListedConversations(server.url)),
      watch_(server),
      // Without colours, rendering would drop the Markdown marks without a substitute.
      answer_(screen_, screen_.colour() && !options.plain) {
  history_.set_on(options.history);
  answer_.set_shows_reasoning(options.show_thinking.value_or(escapes_));
}

int Repl::Run() {
  if (!Start()) return 1;
  if (escapes_) terminal_.EnterRawMode();
  std::string input;
  while (!leaving_) {
    const Input read = ReadInput(input);
    if (read == Input::kEnd) break;
    if (read == Input::kInterrupted) continue;
    if (input.find_first_not_of(" \t\n") == std::string::npos) continue;
    history_.Add(input);
    const Command command = ParseCommand(input);
    if (command.name == Command::Name::kNone) {
      Ask(command.text);
    } else {
      Execute(command);
    }
  }
  terminal_.LeaveRawMode();
  if (ephemeral()) {
    DeleteEphemeral();
    return 0;
  }
  RememberLastConversation(server_.url, conversation_);
  if (!conversation_.empty()) screen_.Verbatim("Resume with: " + ResumeLine());
  return 0;
}

Repl::Input Repl::ReadInput(std::string& input) {
  while (true) {
    std::string line;
    const Input read = ReadLine(multi_line_.open() ? "... " : ">>> ", line);
    if (read == Input::kEnd) return read;
    if (read == Input::kInterrupted) {
      if (line.empty() && !multi_line_.open()) {
        screen_.Notice("Ctrl-D or /bye leaves; the conversation stays on the server.");
      }
      multi_line_.Clear();
      return read;
    }
    if (std::optional<std::string> whole = multi_line_.Push(line)) {
      input = std::move(*whole);
      return Input::kText;
    }
  }
}

Repl::Input Repl::ReadLine(const std::string& prompt, std::string& line) {
  if (!conversation_.empty() && seen_) watch_.Begin(conversation_, static_cast<int64_t>(*seen_));
  const Input read = escapes_ ? ReadEditedLine(prompt, line) : ReadPlainLine(prompt, line);
  watch_.End();
  return read;
}

void Repl::FollowOthers() {
  watch_.End();
  CatchUp();
  if (seen_) watch_.Begin(conversation_, static_cast<int64_t>(*seen_));
}

Repl::Input Repl::ReadEditedLine(const std::string& prompt, std::string& line) {
  editor_.Begin(prompt, "... ", screen_.prompt_style(), screen_.plain_style());
  terminal_.Write(editor_.Draw(terminal_.size()));
  while (true) {
    std::vector<Key> keys = std::exchange(typed_ahead_, {});
    for (size_t i = 0; i < keys.size(); ++i) {
      if (const std::optional<Input> done = HandleKey(keys[i], line)) {
        typed_ahead_.assign(keys.begin() + static_cast<std::ptrdiff_t>(i) + 1, keys.end());
        return *done;
      }
    }
    if (!keys.empty()) terminal_.Write(editor_.Draw(terminal_.size()));
    const Wake wake = terminal_.Wait(watch_.fd(), keys_.waiting() ? kEscapeTimeoutMs : -1);
    if (wake.readable) {
      terminal_.Write(editor_.Hide(terminal_.size()));
      FollowOthers();
      terminal_.Write(editor_.Draw(terminal_.size()));
    }
    if (wake.terminated || wake.end_of_input) {
      terminal_.Write(editor_.Leave(terminal_.size()));
      return Input::kEnd;
    }
    if (wake.timed_out) keys_.Flush();
    if (wake.resized) terminal_.Write(editor_.Draw(terminal_.size()));
    typed_ahead_ = keys_.Push(wake.input);
    if (wake.interrupted) typed_ahead_.push_back({Key::Code::kControl, "C"});
  }
}

std::optional<Repl::Input> Repl::HandleKey(const Key& key, std::string& line) {
  if (key.code == Key::Code::kControl && key.text == "Z") {
    terminal_.Write(editor_.Leave(terminal_.size()));
    terminal_.Suspend();
    terminal_.Write(editor_.Draw(terminal_.size()));
    return std::nullopt;
  }
  switch (editor_.Handle(key)) {
    case LineEditor::Result::kEditing:
      return std::nullopt;
    case LineEditor::Result::kShowCandidates:
      ShowCandidates();
      return std::nullopt;
    case LineEditor::Result::kClearScreen:
      terminal_.Write("\x1b[H\x1b[2J");
      editor_.Forget();
      terminal_.Write(editor_.Draw(terminal_.size()));
      return std::nullopt;
    case LineEditor::Result::kAccepted:
      line = editor_.text();
      terminal_.Write(editor_.Leave(terminal_.size()));
      return Input::kText;
    case LineEditor::Result::kInterrupted:
      line = editor_.text();
      terminal_.Write(editor_.Leave(terminal_.size()));
      return Input::kInterrupted;
    case LineEditor::Result::kEndOfInput:
      terminal_.Write(editor_.Leave(terminal_.size()));
      return Input::kEnd;
  }
  return std::nullopt;
}

void Repl::ShowCandidates() {
  std::string names;
  for (const std::string& candidate : editor_.candidates()) names += candidate + "  ";
  terminal_.Write(editor_.Leave(terminal_.size()));
  screen_.Notice(names);
  terminal_.Write(editor_.Draw(terminal_.size()));
}

Repl::Input Repl::ReadPlainLine(const std::string& prompt, std::string& line) {
  terminal_.Write(prompt);
  while (true) {
    const size_t newline = plain_input_.find('\n');
    if (newline != std::string::npos) {
      line = Sanitise(plain_input_.substr(0, newline));
      plain_input_.erase(0, newline + 1);
      return Input::kText;
    }
    const Wake wake = terminal_.Wait(watch_.fd(), -1);
    if (wake.readable) {
      terminal_.Write("\n");
      FollowOthers();
      terminal_.Write(prompt);
    }
    plain_input_ += wake.input;
    if (wake.terminated || wake.end_of_input || wake.interrupted) {
      terminal_.Write("\n");
      line = std::exchange(plain_input_, {});
      return wake.interrupted ? Input::kInterrupted : Input::kEnd;
    }
  }
}

}  // namespace ringside::client
