// The interactive chat: prompt, commands, streaming answers. Tracks the current conversation, which is stored on the
// server and outlives this object. THREAD: main.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "clients/chat/chat_client.h"
#include "clients/chat/chat_options.h"
#include "clients/chat/conversation_watch.h"
#include "clients/chat/repl/answer_view.h"
#include "clients/chat/repl/attached_file.h"
#include "clients/chat/repl/commands.h"
#include "clients/chat/repl/multi_line.h"
#include "clients/terminal/history.h"
#include "clients/terminal/key_decoder.h"
#include "clients/terminal/line_editor.h"
#include "clients/terminal/screen.h"
#include "clients/terminal/terminal.h"

namespace ringside::client {

class Repl {
 public:
  Repl(const ServerAccess& server, const ChatOptions& options, Terminal& terminal);

  /// Runs until the user leaves. Returns the exit code: 0, or 1 if the server cannot be reached at startup.
  int Run();

 private:
  enum class Input { kText, kInterrupted, kEnd };

  // Input (repl.cpp).
  Input ReadLine(const std::string& prompt, std::string& line);
  Input ReadEditedLine(const std::string& prompt, std::string& line);
  Input ReadPlainLine(const std::string& prompt, std::string& line);
  std::optional<Input> HandleKey(const Key& key, std::string& line);
  Input ReadInput(std::string& input);
  void ShowCandidates();
  /// Shows messages that others added while the user was at the prompt.
  void FollowOthers();

  // Answers (repl_answer.cpp).
  void Ask(const std::string& text);
  /// `continues_answer`: continues the last answer, which remains one message.
  void RunTurn(TurnRequest turn, bool continues_answer = false);
  void WaitForTurn();
  bool OnLinkEvent(const LinkEvent& event);
  void OnFinished(const ServerEvent& response);
  void AskHowItEnded(const std::string& response_id);
  void Interrupt();
  /// Waits for a rewind or fork to finish; returns nothing, and shows the reason, if it failed.
  std::optional<ServerEvent> WaitForVerb();

  // Conversations (repl_conversations.cpp).
  bool Start();
  bool Attach(const std::string& name);
  bool EnsureConversation(const std::string& first_message);
  void ShowLastMessages();
  /// `other`: who sent the messages, for their labels; "" = this user.
  void ShowMessages(const std::vector<InputMessage>& items, size_t first, const std::string& other = "");
  /// Shows messages that others added or removed since the last look at the conversation.
  void CatchUp();
  void CatchUpIfChanged();
  void Fork();
  void StartNew(std::optional<std::string> system);
  void ListSessions();
  void Resume(const std::string& argument);
  void Retitle(const std::string& title);
  void DeleteEphemeral();
  bool ephemeral() const { return options_.ephemeral.value_or(false); }
  std::optional<std::vector<InputMessage>> Items();
  std::string ResumeLine() const;

  // Commands (repl_commands.cpp).
  void Execute(const Command& command);
  void Regenerate();
  void Continue();
  void Rewind(const std::string& argument);
  bool TakeBack(size_t exchanges);
  void SetSystem(const std::string& text);
  void SetModel(const std::string& argument);
  void UsePreset(const std::string& argument);
  void SetSetting(const std::string& argument);
  void SetStats(const std::string& argument);
  void SetThinking(const std::string& argument);
  void SetHistory(const std::string& argument);
  void Save(const std::string& argument);
  void Export(const std::string& argument);
  void WriteConversation(const std::string& path,
                         std::string (*form)(const ConversationSummary&, const std::vector<InputMessage>&));
  void Edit(const std::string& argument);

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

  struct NextTurn {
    std::optional<std::string> system;  // sent with the first message
    Settings settings;
    std::string model;                // "" = the server's default, or the conversation's
    std::vector<AttachedFile> files;  // sent with the next message
  };

  std::string conversation_;  // "" = created with the first message
  NextTurn next_;
  bool stats_;
  std::optional<TurnReport> last_report_;
  std::vector<std::string> listed_;  // ids behind the last shown numbers
  std::vector<std::string> made_;    // ids of conversations created by this chat
  std::optional<size_t> seen_;       // number of messages the user has seen; none = unknown
  ConversationWatch watch_;

  // The running answer.
  AnswerView answer_;
  size_t added_ = 0;               // messages that the turn adds before the answer
  bool continues_answer_ = false;  // the answer extends the last message
  bool cancelling_ = false;
};

}  // namespace ringside::client
