// Sends questions and shows answers.
#include <nlohmann/json.hpp>
#include <utility>

#include "clients/chat/repl/repl.h"
#include "clients/wire/json_fields.h"

namespace ringside::client {
namespace {

constexpr char kCtrlC = 0x03;
constexpr int kVerbTimeoutMs = 30000;

std::string Seconds(std::chrono::milliseconds delay) {
  const int64_t tenths = (delay.count() + 99) / 100;
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " s";
}

std::string WhyCut(const std::string& reason) {
  if (reason == "interrupted") return "[the server stopped in the middle of this answer; /continue resumes it]";
  if (reason == "detached") return "[stopped: no client was connected; /continue resumes it]";
  if (reason.empty() || reason == "max_output_tokens") return "[cut off: maximum answer length reached]";
  if (reason == "session_full") return "[cut off: maximum conversation length reached]";
  if (reason == "repetition") return "[stopped: the answer repeated itself; /continue resumes it]";
  if (reason == "turn_timeout") return "[cut off: the answer took too long; /continue resumes it]";
  return "[cut off: " + reason + "]";
}

}  // namespace

void Repl::Ask(const std::string& text) {
  CatchUpIfChanged();
  if (!EnsureConversation(text)) return;
  TurnRequest turn;
  turn.conversation = conversation_;
  turn.input = {{.role = "user", .text = WithFiles(text, next_.files), .images = ImagesOf(next_.files)}};
  turn.instructions = next_.system;
  RunTurn(std::move(turn));
}

void Repl::RunTurn(TurnRequest turn, bool continues_answer) {
  added_ = turn.input.size();
  continues_answer_ = continues_answer;
  turn.fields = next_.settings.Fields();
  if (!next_.model.empty()) turn.fields.emplace_back("model", Dump(next_.model));
  turn.request_id = MakeRequestId();
  answer_.Begin();
  cancelling_ = false;
  client_.link().StartTurn(std::move(turn));
  WaitForTurn();
}

void Repl::WaitForTurn() {
  while (true) {
    while (const std::optional<LinkEvent> event = client_.events().Take()) {
      if (OnLinkEvent(*event)) return;
    }
    Wake wake = terminal_.Wait(client_.events().fd(), -1);
    if (wake.input.find(kCtrlC) != std::string::npos) {
      // Ctrl-C also drops the input typed before it, as in shells.
      wake.input.erase(0, wake.input.rfind(kCtrlC) + 1);
      typed_ahead_.clear();
      wake.interrupted = true;
    }
    if (escapes_) {
      for (Key& key : keys_.Push(wake.input)) typed_ahead_.push_back(std::move(key));
    } else {
      plain_input_ += wake.input;
    }
    if (wake.interrupted) Interrupt();
    if (wake.terminated || (wake.end_of_input && escapes_)) {
      leaving_ = true;  // the answer continues on the server
      answer_.End();
      return;
    }
  }
}

void Repl::Interrupt() {
  if (cancelling_) {
    client_.link().Abandon();
    return;
  }
  cancelling_ = true;
  client_.link().Cancel();
}

bool Repl::OnLinkEvent(const LinkEvent& event) {
  switch (event.kind) {
    case LinkEvent::Kind::kStarted:
      next_.system.reset();  // it is part of the conversation now
      if (added_ > 0) next_.files.clear();
      break;
    case LinkEvent::Kind::kReasoning:
      answer_.AddReasoning(event.text);
      break;
    case LinkEvent::Kind::kText:
      answer_.AddText(event.text);
      break;
    case LinkEvent::Kind::kRestarted:
      answer_.End();
      screen_.Notice("The answer from the beginning:");
      answer_.Begin();
      answer_.AddText(event.text);
      break;
    case LinkEvent::Kind::kFinished:
      OnFinished(event.server);
      break;
    case LinkEvent::Kind::kUnknown:
      AskHowItEnded(event.server.response_id);
      break;
    case LinkEvent::Kind::kLost:
      seen_.reset();
      [[fallthrough]];
    case LinkEvent::Kind::kRefused:
    case LinkEvent::Kind::kVerbFailed:
      answer_.End();
      screen_.Error(event.message);
      if (event.kind != LinkEvent::Kind::kVerbFailed && !next_.files.empty()) {
        screen_.Notice("[the attached files are kept for the next message; /read - drops them]");
      }
      break;
    case LinkEvent::Kind::kRetrying:
      screen_.ShowBanner("[connection lost (" + event.message + "); attempt " + std::to_string(event.attempt) + " in " +
                         Seconds(event.delay) + "; Ctrl-C gives up]");
      break;
    case LinkEvent::Kind::kRestored:
      screen_.ClearBanner();
      break;
    case LinkEvent::Kind::kNotice:
      if (event.server.kind == ServerEvent::Kind::kDraining) screen_.Notice("[the server is about to restart]");
      if (event.server.kind == ServerEvent::Kind::kQueued) {
        screen_.ShowBanner("[the server is busy; position " + std::to_string(event.server.position) + " in the queue]");
      }
      break;
    case LinkEvent::Kind::kVerbDone:
      seen_ = static_cast<size_t>(event.server.items);
      break;
  }
  return event.ends();
}

void Repl::OnFinished(const ServerEvent& response) {
  answer_.End();
  if (seen_ && response.status != "failed") {
    *seen_ += added_ + (response.report.output_tokens > 0 && !continues_answer_ ? 1 : 0);
  }
  last_report_ = response.report;
  if (response.status == "failed") {
    screen_.Error(response.error.message.empty() ? "The answer failed." : response.error.message);
  } else if (response.status == "cancelled") {
    screen_.Notice("[stopped]");
  } else if (response.status == "incomplete") {
    if (response.text.empty() && !response.reasoning.empty()) screen_.Notice("[cut off before the answer began]");
    screen_.Notice(WhyCut(response.incomplete_reason));
  }
  if (response.report.messages_evicted > 0 && !stats_) {
    screen_.Notice("[" + std::to_string(response.report.messages_evicted) +
                   " of the oldest messages have left the model's window]");
  }
  if (stats_) screen_.Notice("[" + DescribeReport(response.report) + "]");
}

void Repl::AskHowItEnded(const std::string& response_id) {
  const Outcome<ServerEvent> response = GetResponse(client_.http(), response_id);
  if (response && response->kind == ServerEvent::Kind::kFinished && response->text.starts_with(answer_.text())) {
    const std::string rest = response->text.substr(answer_.text().size());
    if (!rest.empty()) answer_.AddText(rest);
    OnFinished(*response);
  } else {
    answer_.End();
    seen_.reset();
    screen_.Error("The connection was lost before the end of this answer. /regen generates another.");
  }
}

std::optional<ServerEvent> Repl::WaitForVerb() {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(kVerbTimeoutMs);
  while (true) {
    while (const std::optional<LinkEvent> event = client_.events().Take()) {
      if (!OnLinkEvent(*event)) continue;
      return event->kind == LinkEvent::Kind::kVerbDone ? std::optional(event->server) : std::nullopt;
    }
    const Wake wake = terminal_.Wait(client_.events().fd(), 1000);
    if (wake.terminated || wake.end_of_input) leaving_ = true;
    const bool interrupted = wake.interrupted || wake.input.find(kCtrlC) != std::string::npos;
    if (interrupted || leaving_ || std::chrono::steady_clock::now() > deadline) client_.link().Abandon();
  }
}

}  // namespace ringside::client
