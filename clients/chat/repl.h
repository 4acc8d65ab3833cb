// The interactive chat: prompt, commands, streaming answers. Owns the conversation that is being talked in; the
// conversation itself lives on the server and outlives this. Main thread only.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "clients/chat/chat_client.h"
#include "clients/chat/commands.h"
#include "clients/terminal/history.h"
#include "clients/terminal/key_decoder.h"
#include "clients/terminal/line_editor.h"
#include "clients/chat/multi_line.h"
#include "clients/chat/chat_options.h"
#include "clients/terminal/sanitiser.h"
#include "clients/terminal/screen.h"
#include "clients/terminal/terminal.h"

namespace ringside::client {

class Repl {
 public:
  Repl(const ServerAccess& server, const ChatOptions& options, Terminal& terminal);

  /// Until the user leaves. Returns the process's exit code: 0, or 1 if the server cannot be reached at the start.
  int Run();

 private:
  enum class Input { kText, kInterrupted, kEnd };

  // Input (repl_input.cpp).
  Input ReadLine(const std::string& prompt, std::string& line);
  Input ReadEditedLine(const std::string& prompt, std::string& line);
  Input ReadPlainLine(const std::string& prompt, std::string& line);
  std::optional<Input> HandleKey(const Key& key, std::string& line);
  Input ReadInput(std::string& input);
  void ShowCandidates();

  // Answers (repl_answer.cpp).
  void Ask(const std::string& text);
  void RunTurn(TurnRequest turn);
  void WaitForTurn();
  bool OnLinkEvent(const LinkEvent& event);
  void OnFinished(const ServerEvent& response);
  void ShowText(std::string_view text);
  void AskHowItEnded(const std::string& response_id);
  void Interrupt();
  /// Waits for the end of a rewind or fork; nothing (and the reason shown) if it failed.
  std::optional<ServerEvent> WaitForVerb();

  // Commands (repl_commands.cpp).
  bool Start();
  bool Attach(const std::string& id);
  bool EnsureConversation();
  void ShowLastMessages();
  void Execute(const Command& command);
  void Regenerate();
  void Continue();
  void Rewind(const std::string& argument);
  bool TakeBack(size_t exchanges);
  void Fork();
  void StartNew(std::optional<std::string> system);
  void SetSystem(const std::string& text);
  void SetSetting(const std::string& argument);
  void SetStats(const std::string& argument);
  void SetHistory(const std::string& argument);
  void ListSessions();
  void Resume(const std::string& argument);
  void Save(const std::string& argument);
  std::optional<std::vector<InputMessage>> Items();
  std::string ResumeLine() const;

  const ServerAccess& server_;
  const ChatOptions& options_;
  Terminal& terminal_;
  const bool escapes_;
  Screen screen_;
  ChatClient client_;
  History history_;
  LineEditor editor_;
  KeyDecoder keys_;
  MultiLine multi_line_;
  std::vector<Key> typed_ahead_;
  std::string plain_input_;
  bool leaving_ = false;

  std::string conversation_;           // "" = made with the first message
  std::optional<std::string> system_;  // for the first message
  Settings settings_;
  bool stats_;
  std::optional<TurnReport> last_report_;
  std::vector<std::string> listed_;  // ids as /sessions last numbered them

  // The answer that is running.
  Sanitiser sanitiser_;
  std::string answer_;  // raw text so far
  bool cancelling_ = false;
};

}  // namespace ringside::client
