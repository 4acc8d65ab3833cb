// One conversation's text as messages and as token ids. The ids are the truth: what was sampled is kept and never
// tokenised again. Items at the end may not be rendered yet; a turn renders them. A plain value, owned by a Session
// (and by its running turn as the state that the turn will leave behind); no locks of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/text/tokenizer.h"
#include "session/chat/chat_template.h"
#include "session/chat/shared_list.h"
#include "session/chat/shared_text.h"

namespace ringside {

inline constexpr size_t kMaxTimelineItems = 1 << 17;         // of one conversation; who adds items sees to it
inline constexpr int64_t kPinnedWithoutSystem = 4;           // sink tokens that a window needs to stay fluent
inline constexpr int64_t kAnyVocabulary = int64_t{1} << 31;  // ids of a tokenizer that is not here

struct Item {
  std::string id;  // "msg_..."
  ChatRole role = ChatRole::kUser;
  SharedText text;
  SharedText reasoning;   // of an assistant's, beside `text`: sampled, or as a client sent it back
  int64_t calls_at = -1;  // of an assistant's: where in `text` its tool calls begin; -1 = there are none
  /// Of what a tool gave: the call's id. Of an assistant's calls that a client made: their ids, a line each; of others
  /// they follow from `id` (ToolCallId).
  std::string call_ids;
  bool complete = true;      // false: an answer that was cut short
  SharedText form;           // of one that was: what Encode(AnswerForm) makes of how it was asked for
  bool sampled = false;      // its ids came from the sampler
  int64_t token_begin = -1;  // [token_begin, token_end) of the timeline; -1 = not rendered yet
  int64_t token_end = -1;
  TimelineEnd end = TimelineEnd::kNothing;  // what a renderer must know of the text up to token_end

  bool rendered() const { return token_end >= 0; }
  friend bool operator==(const Item&, const Item&) = default;
};

/// What a timeline tells the model before all messages.
struct TimelineHead {
  std::optional<std::string> instructions;  // the system message that stands before all items
  SharedText tools;                         // a line of JSON each, see ChatTemplate::Render; "" = none
  /// Template variables, where a template that has a format writes messages otherwise for them; "" = none. Not stored.
  std::string variables = {};
  friend bool operator==(const TimelineHead&, const TimelineHead&) = default;
};

/// What makes one timeline of another that begins like it: the form in which a journal has it.
struct TimelinePatch {
  int64_t keep_items = 0, keep_tokens = 0, keep_starts = 0;  // of the other, from its beginning
  std::vector<Item> items;
  std::vector<TokenId> tokens;
  std::vector<int64_t> message_starts;
  std::optional<std::string> instructions;
  std::optional<SharedText> tools;  // absent = the other's
  int64_t pinned = 0, answer_begin = -1;
  TimelineEnd end = TimelineEnd::kNothing;
};

/// Of a model with an encoder.
struct EncoderTokens {
  TokenId input_end = 0;     // the last that it reads
  TokenId answer_start = 0;  // behind which an answer is sampled
};

/// What turns text into ids. All of it outlives every Timeline that is rendered with it.
///
/// With `encoder` the conversation is what the encoder reads, as much of its end as pinned_max tokens hold, and all of
/// it is pinned; behind it stands an answer alone, the one that is sampled. `chat` renders anew then.
struct Codec {
  const Tokenizer& tokenizer;
  const ChatTemplate& chat;
  int64_t pinned_max = 0;  // most pinned tokens, at least 1
  std::optional<EncoderTokens> encoder = {};
  /// A conversation that the template refuses is an error. Else it is rendered as others are, where `chat` can.
  bool refuses = false;
};

class Timeline {
 public:
  /// A prompt without a template, and behind it an open answer. It has no message that could be cut out.
  /// kInvalidArgument (context_length_exceeded) for more than an encoder reads; with `cuts` it reads the end.
  static Result<Timeline> OfPrompt(std::vector<TokenId> tokens, const Codec& codec, bool cuts = false);
  bool raw() const { return raw_; }

  const SharedList<Item>& items() const { return items_; }
  const SharedList<TokenId>& tokens() const { return tokens_; }
  const SharedList<int64_t>& message_starts() const { return message_starts_; }
  const TimelineHead& head() const { return head_; }
  /// Tokens that the ring never evicts: BOS and the system message, at most codec.pinned_max; without a system message
  /// the first 4. Fixed when the first token is rendered; 0 before.
  int64_t pinned() const { return pinned_; }
  /// Items at the beginning for which an encoder's last input had no room, or, rendered here, for their end alone.
  int64_t left_out() const;

  /// Memory held, about. Takes no longer for a long one.
  int64_t bytes() const;

  /// Adds a message behind the others, not rendered yet.
  void AddItem(Item item);

  /// Sets what stands before all items. If ids exist already they are made anew up to the first sampled answer, whose
  /// ids and all behind them are kept; by the next Render, and all of them, where the template renders anew. How many
  /// were made anew; nothing if no id changed. kInvalidArgument (context_length_exceeded) where there would be more
  /// than `max_tokens` ids; the timeline is then of no further use.
  Result<std::optional<int64_t>> SetHead(TimelineHead head, const Codec& codec, int64_t max_tokens);

  /// Renders what is not rendered yet and, with `open_answer`, the text that begins an answer. Where the template
  /// renders anew, so is everything, answers too: the ids are then those of the whole text. kInvalidArgument
  /// (context_length_exceeded), and nothing changed, where there would be more than `max_tokens` ids: such a text is
  /// not tokenised to its end. With `cuts` an encoder that has no room for the last message reads that one's end.
  Status Render(const Codec& codec, bool open_answer, int64_t max_tokens, bool cuts = false);

  /// Ends the answer that Render or ReopenAnswer opened: `output` are the sampled ids. Without any, all is as before.
  /// An answer that went on stays one item: under its former id, its text behind the former text; calls_at is in both.
  void CloseAnswer(Item answer, std::span<const TokenId> output, const Codec& codec);

  /// Opens the last answer, which was cut short (CanReopen), so that what is sampled next goes on with it. Until
  /// CloseAnswer it is no item but `reopened`.
  void ReopenAnswer();
  bool CanReopen() const;
  /// Drops the last `bytes` of the reopened answer's text, if there is one: its continuation repeats them.
  void TrimReopened(size_t bytes);
  const std::optional<Item>& reopened() const { return reopened_; }
  /// Where the open answer's message begins; -1 = none is open.
  int64_t answer_begin() const { return answer_begin_; }

  /// Replaces the `removed` items at index `at` by `added`. Ids before the place stay. Messages after it are rendered
  /// again up to the next sampled answer, whose ids and all later ones are kept. Where the template renders the whole
  /// conversation, the next Render makes all ids again. kInvalidArgument (context_length_exceeded) for more than
  /// `max_tokens` ids; the timeline is unusable then.
  Status Splice(size_t at, size_t removed, std::vector<Item> added, const Codec& codec, int64_t max_tokens);

  /// Keeps the first `count` items (at most as many as there are) and the ids that belong to them.
  void KeepItems(size_t count);

  /// Forgets every id, so that the text is rendered anew: they were another tokenizer's.
  void ForgetTokens();
  /// Ids were forgotten, and nothing has been rendered since.
  bool forgotten() const { return end_ == TimelineEnd::kForgotten; }

  /// What makes this of `base`.
  TimelinePatch PatchFrom(const Timeline& base) const;
  /// Becomes what the patch was taken from, if this is what it was taken against. kCorruption, and nothing changed, if
  /// no timeline of a vocabulary of `vocab` ids (kAnyVocabulary: of some) can be that.
  Status Apply(TimelinePatch patch, int64_t vocab);

 private:
  /// A whole conversation as ids.
  struct Anew {
    std::vector<TokenId> ids;
    std::vector<int64_t> starts;  // of each message, and of an answer that is opened
    std::vector<bool> sampled;    // by message: its ids are those that were sampled
    int64_t pinned = 0;
    size_t left_out = 0;  // items before its first message
    bool cut = false;     // of which it has the end alone
    TimelineEnd end = TimelineEnd::kNothing;
  };
  Status RenderAnew(const Codec& codec, bool open_answer, int64_t max_tokens, bool cuts);
  /// What RenderAnew makes of the conversation without its first `left_out` items and `cut` bytes of the next one's
  /// text; nothing where it is too long.
  Result<std::optional<Anew>> EncodeAnew(const Codec& codec, bool open_answer, size_t left_out, int64_t max_tokens,
                                         size_t cut = 0) const;
  /// The same with as few items left out as an encoder's input must be without.
  Result<std::optional<Anew>> EncodeInput(const Codec& codec, int64_t max_tokens, bool cuts) const;
  /// What an encoder reads of the last item alone: as much of its end as there is room for.
  Result<std::optional<Anew>> EncodeEnd(const Codec& codec, int64_t most) const;
  /// Puts the sampled ids of answers in place of ids that spell the same text, as far as all ids before them are kept.
  void KeepSampled(const Tokenizer& tokenizer, Anew* anew) const;
  void Pin(int64_t wanted, const Codec& codec);
  void CutTokens(int64_t size);
  void TruncateItems(size_t count);
  bool RendersAnew(const Codec& codec) const { return codec.chat.renders_anew(head_.tools.size() > 0); }
  /// Likewise, or because the conversation is of a kind that the template's format writes otherwise.
  bool RendersAnew(const Codec& codec, bool open_answer) const;

  TimelineHead head_;
  SharedList<Item> items_;
  int64_t item_bytes_ = 0;  // of items_
  SharedList<TokenId> tokens_;
  SharedList<int64_t> message_starts_;  // ascending
  int64_t pinned_ = 0;
  int64_t answer_begin_ = -1;  // where an opened answer's message begins
  bool raw_ = false;           // made by OfPrompt
  bool cut_ = false;           // Render: of the first message that an encoder reads it has the end alone
  std::optional<Item> reopened_;
  TimelineEnd end_ = TimelineEnd::kNothing;
};

}  // namespace ringside
