// A conversation as messages and as token ids. The ids are authoritative: sampled ids are kept and never tokenized
// again. Items at the end may not be rendered yet; a turn renders them. A plain value, owned by a Session (and by its
// running turn as the resulting state); not synchronized.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/text/tokenizer.h"
#include "engine/vision/image_format.h"
#include "session/chat/templates/chat_template.h"
#include "session/chat/timeline/item_image.h"
#include "session/chat/timeline/shared_list.h"
#include "session/chat/timeline/shared_text.h"

namespace ringside {

inline constexpr size_t kMaxTimelineItems = 1 << 17;         // of one conversation; checked by the code that adds items
inline constexpr int64_t kPinnedWithoutSystem = 4;           // attention sink tokens that a window needs to stay fluent
inline constexpr int64_t kAnyVocabulary = int64_t{1} << 31;  // ids of an unknown tokenizer

struct Item {
  std::string id;  // "msg_..."
  ChatRole role = ChatRole::kUser;
  SharedText text;                // with kImageMark for each of `images`
  std::vector<ItemImage> images;  // of a user's message or a tool's result
  SharedText reasoning;           // an assistant's, in addition to `text`: sampled, or returned by a client
  int64_t calls_at = -1;          // an assistant's: offset of its tool calls in `text`; -1 = none
  /// Of a tool result: the call's id. Of an assistant's calls supplied by a client: their ids, one per line; other ids
  /// follow from `id` (ToolCallId).
  std::string call_ids;
  bool complete = true;      // false: the answer was cut
  SharedText form;           // of a cut answer: Encode(AnswerForm) of the requested form
  bool sampled = false;      // its ids were sampled
  int64_t token_begin = -1;  // [token_begin, token_end) of the timeline; -1 = not rendered
  int64_t token_end = -1;
  TimelineEnd end = TimelineEnd::kNothing;  // renderer state at token_end

  bool rendered() const { return token_end >= 0; }
  friend bool operator==(const Item&, const Item&) = default;
};

/// The part of a timeline before all messages.
struct TimelineHead {
  std::optional<std::string> instructions;  // system message before all items
  SharedText tools;                         // one line of JSON per tool, see ChatTemplate::Render; "" = none
  /// Template variables that change the rendering of messages in a template with a format; "" = none. Not stored.
  std::string variables = {};
  friend bool operator==(const TimelineHead&, const TimelineHead&) = default;
};

/// Difference between two timelines with a common prefix, as stored in a journal.
struct TimelinePatch {
  int64_t keep_items = 0, keep_tokens = 0, keep_starts = 0;  // length of the common prefix
  std::vector<Item> items;
  std::vector<TokenId> tokens;
  std::vector<int64_t> message_starts;
  std::optional<std::string> instructions;
  std::optional<SharedText> tools;  // absent = unchanged
  int64_t pinned = 0, answer_begin = -1;
  TimelineEnd end = TimelineEnd::kNothing;
};

/// Special tokens of an encoder-decoder model.
struct EncoderTokens {
  TokenId input_end = 0;     // end of the encoder's input
  TokenId answer_start = 0;  // first decoder token, before the answer
};

/// Converts text to ids. All members outlive every Timeline rendered with it. With `encoder` the conversation is the
/// encoder's input: as much of its end as pinned_max tokens hold, all pinned, followed by the sampled answer only.
/// `chat` then renders whole conversations.
struct Codec {
  const Tokenizer& tokenizer;
  const ChatTemplate& chat;
  int64_t pinned_max = 0;  // limit of pinned tokens, at least 1
  std::optional<EncoderTokens> encoder = {};
  /// A conversation that the template refuses is an error. Else it is rendered as others are, where `chat` can.
  bool refuses = false;
  const ImageFormat* images = nullptr;  // null: messages with images are an error
};

/// The tokens of an image in a timeline.
struct PlacedImage {
  ItemImage image;
  int64_t position = 0, tokens = 0;
};

class Timeline {
 public:
  /// Creates a timeline of a prompt without a template, followed by an open answer. It has no message that could be
  /// evicted.
  /// ERRORS: kInvalidArgument (context_length_exceeded) above the encoder's limit, unless `cuts` keeps only the end.
  static Result<Timeline> OfPrompt(std::vector<TokenId> tokens, const Codec& codec, bool cuts = false);
  bool raw() const { return raw_; }

  const SharedList<Item>& items() const { return items_; }
  const SharedList<TokenId>& tokens() const { return tokens_; }
  const SharedList<int64_t>& message_starts() const { return message_starts_; }
  const TimelineHead& head() const { return head_; }
  /// Tokens that the ring never evicts: BOS and the system message, at most codec.pinned_max; without a system message
  /// the first 4. Fixed when the first token is rendered; 0 before.
  int64_t pinned() const { return pinned_; }
  /// The rendered images, in order of their positions.
  /// ERRORS: kInvalidArgument as ImageFormat::Tokens; kCorruption if a token of an image belongs to none.
  Result<std::vector<PlacedImage>> PlacedImages(const ImageFormat* format) const;
  /// Number of leading items that did not fit into the encoder's last input, including one that fitted only partly.
  int64_t left_out() const;

  /// Approximate memory, in constant time.
  int64_t bytes() const;

  /// Appends a message that is not rendered yet.
  void AddItem(Item item);

  /// Sets the head. Existing ids are recomputed up to the first sampled answer, whose ids and all later ones are kept;
  /// if the template renders whole conversations, the next Render recomputes all. Returns the number of recomputed ids;
  /// nullopt if none changed.
  /// ERRORS: kInvalidArgument (context_length_exceeded) above `max_tokens` ids; the timeline is unusable then.
  Result<std::optional<int64_t>> SetHead(TimelineHead head, const Codec& codec, int64_t max_tokens);

  /// Renders pending items and, with `open_answer`, the text that starts an answer. If the template renders whole
  /// conversations, everything is rendered again, including answers. With `cuts` an encoder without room for the last
  /// message reads its end.
  /// ERRORS: kInvalidArgument (context_length_exceeded) above `max_tokens` ids, where tokenizing stops, or
  /// (unsupported_value) for images that the model does not read; nothing changes then.
  Status Render(const Codec& codec, bool open_answer, int64_t max_tokens, bool cuts = false);

  /// Ends the answer opened by Render or ReopenAnswer; `output` are the sampled ids. Without ids the timeline is as
  /// before. A continued answer remains one item with its former id and its text appended; calls_at counts from the
  /// start of the whole text.
  void CloseAnswer(Item answer, std::span<const TokenId> output, const Codec& codec);

  /// Reopens the last answer, which was cut (CanReopen), so that sampling continues it. Until CloseAnswer it is not an
  /// item but `reopened`.
  void ReopenAnswer();
  bool CanReopen() const;
  /// Removes the last `bytes` of the reopened answer's text, if there is one: the continuation repeats them.
  void TrimReopened(size_t bytes);
  const std::optional<Item>& reopened() const { return reopened_; }
  /// Start of the open answer's message; -1 = none is open.
  int64_t answer_begin() const { return answer_begin_; }

  /// Replaces the `removed` items at index `at` by `added`. Ids before them are kept. Later messages are rendered again
  /// up to the next sampled answer, whose ids and all later ones are kept. If the template renders whole conversations,
  /// the next Render recomputes all ids.
  /// ERRORS: kInvalidArgument (context_length_exceeded) above `max_tokens` ids; the timeline is unusable then.
  Status Splice(size_t at, size_t removed, std::vector<Item> added, const Codec& codec, int64_t max_tokens);

  /// Keeps the first `count` items, or all if there are fewer, with their ids.
  void KeepItems(size_t count);

  /// Discards all ids, so that the text is rendered again with another tokenizer.
  void ForgetTokens();
  /// True if ids were discarded and nothing has been rendered since.
  bool forgotten() const { return end_ == TimelineEnd::kForgotten; }

  /// Returns the difference from `base`.
  TimelinePatch PatchFrom(const Timeline& base) const;
  /// Applies a patch taken against this timeline.
  /// ERRORS: kCorruption if the result is not a valid timeline of a vocabulary of `vocab` ids (kAnyVocabulary: any);
  /// nothing changes then.
  Status Apply(TimelinePatch patch, int64_t vocab);

 private:
  /// A whole conversation as ids.
  struct WholeEncoding {
    std::vector<TokenId> ids;
    std::vector<int64_t> starts;  // of each message, and of the opened answer
    std::vector<bool> sampled;    // by message: its ids are the sampled ones
    int64_t pinned = 0;
    size_t left_out = 0;  // items before its first message
    bool cut = false;     // only the end of the first message fitted
    TimelineEnd end = TimelineEnd::kNothing;
  };
  Status RenderWhole(const Codec& codec, bool open_answer, int64_t max_tokens, bool cuts);
  /// Renders the conversation without its first `left_out` items and the first `cut` bytes of the next one's text;
  /// nullopt if it is too long.
  Result<std::optional<WholeEncoding>> EncodeWhole(const Codec& codec, bool open_answer, size_t left_out,
                                                   int64_t max_tokens, size_t cut = 0) const;
  /// As EncodeWhole, leaving out as few items as the encoder's input limit permits.
  Result<std::optional<WholeEncoding>> EncodeInput(const Codec& codec, int64_t max_tokens, bool cuts) const;
  /// As much of the last item's end as the encoder's input holds.
  Result<std::optional<WholeEncoding>> EncodeEnd(const Codec& codec, int64_t most) const;
  /// Replaces ids by an answer's sampled ids where they spell the same text, as long as all earlier ids are kept.
  void KeepSampled(const Tokenizer& tokenizer, WholeEncoding* anew) const;
  void Pin(int64_t wanted, const Codec& codec);
  void CutTokens(int64_t size);
  void TruncateItems(size_t count);
  bool RendersWhole(const Codec& codec) const { return codec.chat.renders_whole(head_.tools.size() > 0); }
  /// Likewise, or because the conversation is of a kind that the template's format writes otherwise.
  bool RendersWhole(const Codec& codec, bool open_answer) const;

  TimelineHead head_;
  SharedList<Item> items_;
  int64_t item_bytes_ = 0;  // of items_
  SharedList<TokenId> tokens_;
  SharedList<int64_t> message_starts_;  // ascending
  int64_t pinned_ = 0;
  int64_t answer_begin_ = -1;  // start of the open answer's message
  bool raw_ = false;           // created by OfPrompt
  bool cut_ = false;           // Render: the encoder's input starts with the end of a message
  std::optional<Item> reopened_;
  TimelineEnd end_ = TimelineEnd::kNothing;
};

}  // namespace ringside
