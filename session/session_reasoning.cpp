// Reasoning in a session's turns: settings.
#include "base/worker_pool.h"
#include "engine/text/channels/continued_answer.h"
#include "session/chat/reasoning_settings.h"
#include "session/session.h"

namespace ringside {

// Learning a template for new settings takes tens of milliseconds, so no lock is held.
Result<SettledReasoning> Session::SettleReasoning(const TurnSpec& spec) const {
  const ChatTemplate& chat = context_->codec.chat;
  if (spec.raw && spec.raw->chat) return chat.Settle({});
  if (spec.raw || context_->codec.encoder) return ReasoningSettings(nullptr, "").Settle(spec.reasoning, chat);
  if (spec.reasoning.says_nothing()) return chat.Settle(spec.reasoning);
  Result<SettledReasoning> settled = SettledReasoning();
  RETURN_IF_ERROR(RunLongWork([&] { settled = chat.Settle(spec.reasoning); }));
  if (settled.ok() && settled->budget >= 0 && spec.sampling.beams.searches()) {
    settled->budget = -1;  // tokens cannot be forced in beam search
    settled->ignored.emplace_back("budget_tokens");
  }
  return settled;
}

Codec Session::CodecFor(const SettledReasoning& reasoning) const {
  const Codec& codec = context_->codec;
  return {codec.tokenizer, reasoning.chat ? *reasoning.chat : codec.chat, codec.pinned_max, codec.encoder};
}

void Session::SetReasoning(SettledReasoning reasoning, ActiveTurn* turn, TurnRequest* request) const {
  turn->response->ignored_reasoning = std::move(reasoning.ignored);
  SetChannels(std::move(reasoning.channels), turn);
  request->channels = turn->channels;
  request->begun_ids = turn->begun_ids;
  request->reasoning_budget = turn->channels != nullptr ? reasoning.budget : -1;
}

void Session::SetChannels(std::shared_ptr<const ChannelFormat> channels, ActiveTurn* turn) const {
  const Timeline& next = turn->next;
  if (channels == nullptr || next.answer_begin() < 0 || context_->codec.encoder) return;
  if (next.raw()) {
    // The generation prompt's header starts with the prompt's last special token.
    size_t header = next.tokens().size();
    while (header > 0 && !context_->codec.tokenizer.IsSpecial(next.tokens()[header - 1])) --header;
    const bool has_header = channels->layout == ChannelFormat::Layout::kMessages && header > 0;
    if (has_header) turn->begun_ids = next.tokens().From(header - 1);
    turn->channels = std::move(channels);
    return;
  }
  const std::vector<TokenId> message = next.tokens().From(static_cast<size_t>(next.answer_begin()));
  const bool answered = next.reopened() && next.reopened()->text.size() > 0;
  ContinuedAnswer continued = ContinueAnswer(*channels, message, answered, context_->codec.tokenizer);
  turn->channels = std::move(continued.channels);
  turn->begun_ids = std::move(continued.begun);
}

}  // namespace ringside
