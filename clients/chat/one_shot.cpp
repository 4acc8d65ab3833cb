#include "clients/chat/one_shot.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "clients/chat/chat_client.h"
#include "clients/chat/remembered.h"
#include "clients/chat/repl/transcript.h"
#include "clients/chat/session_list.h"
#include "clients/terminal/sanitiser.h"
#include "clients/terminal/terminal.h"
#include "clients/terminal/text_width.h"
#include "clients/wire/json_fields.h"

namespace ringside::client {
namespace {

constexpr int kInterruptedExit = 130;
constexpr const char *kDim = "\x1b[2m", *kPlain = "\x1b[0m";

void Complain(const std::string& sentence) { std::fprintf(stderr, "ringside: %s\n", Sanitise(sentence).c_str()); }

bool ReadAll(std::string& text) {
  char buffer[65536];
  while (true) {
    const ssize_t got = ::read(STDIN_FILENO, buffer, sizeof buffer);
    if (got == 0) return true;
    if (got < 0 && errno != EINTR) return false;
    if (got > 0) text.append(buffer, static_cast<size_t>(got));
  }
}

/// Piped input and the command-line words, joined.
Outcome<std::string> Question(const ChatOptions& chat) {
  std::string piped;
  if (::isatty(STDIN_FILENO) == 0 && !ReadAll(piped)) return Failure{"Cannot read standard input."};
  if (!IsUtf8(piped) || !IsUtf8(chat.prompt)) return Failure{"The input is not UTF-8 text."};
  while (piped.ends_with('\n') || piped.ends_with('\r')) piped.pop_back();
  if (piped.empty() && chat.prompt.empty())
    return Failure{"The prompt is empty: nothing was read from standard input."};
  return piped + (piped.empty() || chat.prompt.empty() ? "" : "\n\n") + chat.prompt;
}

Outcome<std::string> Conversation(const ChatOptions& options, const HttpClient& http, const std::string& question) {
  if (options.continue_last) return FindLastConversation(http);
  if (options.session.empty()) return CreateConversation(http, TitleOf(question));
  return FindConversation(http, options.session);
}

class OneAnswer {
 public:
  OneAnswer(ChatClient& client, bool stats, bool shows_reasoning, bool colour)
      : client_(client), stats_(stats), shows_reasoning_(shows_reasoning), colour_(colour) {}

  int Run(TurnRequest turn) {
    client_.link().StartTurn(std::move(turn));
    while (!exit_code_) {
      pollfd fds[] = {{client_.events().fd(), POLLIN, 0}, {SignalPipe::Instance().fd(), POLLIN, 0}};
      ::poll(fds, 2, -1);
      Wake wake;
      SignalPipe::Instance().Take(wake);
      if (wake.interrupted || wake.terminated) Interrupt();
      while (const std::optional<LinkEvent> event = client_.events().Take()) OnEvent(*event);
      std::fflush(stdout);
    }
    return std::ferror(stdout) != 0 ? 1 : *exit_code_;
  }

 private:
  void Interrupt() {
    interrupted_ ? client_.link().Abandon() : client_.link().Cancel();
    interrupted_ = true;
  }

  void Print(const std::string& text) {
    if (text.empty()) return;
    std::fwrite(text.data(), 1, text.size(), stdout);
    line_open_ = text.back() != '\n';
  }

  void AddReasoning(const std::string& text) {
    if (!shows_reasoning_) return;
    if (!std::exchange(reasons_, true) && colour_) Print(kDim);
    Print(sanitiser_.Push(text));
  }

  /// A blank line separates the reasoning from the answer.
  void EndReasoning() {
    if (!std::exchange(reasons_, false)) return;
    Print(sanitiser_.Finish());
    sanitiser_ = Sanitiser();
    Print(line_open_ ? "\n\n" : "\n");
    if (colour_) Print(kPlain);
    line_open_ = false;
  }

  void End(int exit_code) {
    EndReasoning();
    Print(sanitiser_.Finish());
    if (line_open_) Print("\n");
    std::fflush(stdout);
    exit_code_ = interrupted_ ? kInterruptedExit : exit_code;
  }

  void OnEvent(const LinkEvent& event) {
    switch (event.kind) {
      case LinkEvent::Kind::kReasoning:
        return AddReasoning(event.text);
      case LinkEvent::Kind::kText:
        EndReasoning();
        answer_ += event.text;
        return Print(sanitiser_.Push(event.text));
      case LinkEvent::Kind::kFinished:
        return OnFinished(event.server);
      case LinkEvent::Kind::kUnknown:
        return OnUnknown(event.server.response_id);
      case LinkEvent::Kind::kRefused:
      case LinkEvent::Kind::kLost:
        End(1);
        return Complain(event.message);
      case LinkEvent::Kind::kRestarted:
        End(1);
        Complain("Part of the answer was lost.");
        return client_.link().Abandon();
      case LinkEvent::Kind::kRetrying:
        return Complain("The connection is lost (" + event.message + "), reconnecting.");
      default:
        return;
    }
  }

  void OnUnknown(const std::string& response_id) {
    const Outcome<ServerEvent> response = GetResponse(client_.http(), response_id);
    if (!response || response->kind != ServerEvent::Kind::kFinished || !response->text.starts_with(answer_)) {
      End(1);
      return Complain("The connection was lost before the end of the answer.");
    }
    Print(sanitiser_.Push(response->text.substr(answer_.size())));
    OnFinished(*response);
  }

  void OnFinished(const ServerEvent& response) {
    End(response.failed() || response.status == "cancelled" ? 1 : 0);
    if (response.status == "incomplete" && response.text.empty() && !response.reasoning.empty()) {
      Complain("The answer was cut off before it began: the model was still reasoning.");
    }
    if (response.status == "incomplete") Complain("The answer was cut off (" + response.incomplete_reason + ").");
    if (response.status == "cancelled") Complain("The answer was stopped.");
    if (response.status == "failed") {
      Complain(response.error.message.empty() ? "The answer failed." : response.error.message);
    }
    if (stats_) Complain(DescribeReport(response.report));
  }

  ChatClient& client_;
  const bool stats_, shows_reasoning_, colour_;
  Sanitiser sanitiser_;
  std::string answer_;
  bool line_open_ = false, interrupted_ = false, reasons_ = false;
  std::optional<int> exit_code_;
};

}  // namespace

int AnswerOnce(const ServerAccess& server, const ChatOptions& options) {
  const Outcome<std::string> question = Question(options);
  if (!question) {
    Complain(question.failure().message);
    return 2;
  }
  SignalPipe::Instance();
  ChatClient client(server);
  const Outcome<std::string> conversation = Conversation(options, client.http(), *question);
  if (!conversation) {
    Complain(conversation.failure().message);
    return 1;
  }
  const bool is_new = options.session.empty() && !options.continue_last;
  // A question typed at a terminal may be continued (-c); one from a pipe usually is not.
  const bool ephemeral = options.ephemeral.value_or(is_new && !Terminal::IsInteractive());
  if (!ephemeral) RememberLastConversation(server.url, *conversation);
  TurnRequest turn;
  turn.conversation = *conversation;
  turn.input = {{"user", *question}};
  turn.instructions = options.system;
  turn.fields = options.settings.Fields();
  if (!options.model.empty()) turn.fields.emplace_back("model", Dump(options.model));
  turn.request_id = MakeRequestId();
  const bool terminal = ::isatty(STDOUT_FILENO) != 0;
  OneAnswer answer(client, options.stats, options.show_thinking.value_or(terminal),
                   WantsColour(options.colour, terminal));
  const int code = answer.Run(std::move(turn));
  if (!ephemeral) return code;
  const Outcome<Done> deleted = DeleteConversation(client.http(), *conversation);
  if (!deleted) Complain("The conversation is still on the server: " + deleted.failure().message);
  return code;
}

}  // namespace ringside::client
