#include "session/chat/timeline/timeline.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/refusals/context_overflow.h"
#include "session/chat/templates/conversation_kinds.h"
#include "session/chat/timeline/item_rendering.h"
#include "session/chat/timeline/model_call_ids.h"
#include "session/tools/tool_calls.h"

namespace ringside {
namespace {

int64_t BytesOf(const Item& item) {
  size_t images = 0;
  for (const ItemImage& image : item.images) images += sizeof(ImageFile) + image.file->bytes.size();
  return static_cast<int64_t>(sizeof(Item) + item.id.size() + item.text.size() + item.call_ids.size() +
                              item.form.size() + item.reasoning.size() + images);
}

constexpr int64_t kMostBytesOfInputToken = 64;  // on average

Status TooLong(int64_t max_tokens) {
  return ContextOverflow{.limit = max_tokens, .tokens = max_tokens + 1, .at_least = true}.ToStatus();
}

bool BeginsWithSystem(const std::vector<Item>& items) {
  return !items.empty() && items.front().role == ChatRole::kSystem;
}

// Concatenated renderings of consecutive messages, with the piece index after each item.
class Joined {
 public:
  void Add(const Rendering& part) {
    for (const size_t start : part.message_starts) message_starts_.push_back(pieces() + start);
    if (pieces() == 0) rendering_.pinned_pieces = part.pinned_pieces;
    for (const ImagePiece& image : part.images) rendering_.images.push_back({pieces() + image.piece, image.tokens});
    rendering_.pieces.insert(rendering_.pieces.end(), part.pieces.begin(), part.pieces.end());
  }
  size_t pieces() const { return rendering_.pieces.size(); }

  // Ids, with offsets of every message start and of each of `borders` (piece indices).
  struct Ids {
    EncodedRendering encoded;
    std::vector<int64_t> message_starts, borders;
  };
  std::optional<Ids> Encode(const Tokenizer& tokenizer, const std::vector<size_t>& borders, int64_t max_tokens) {
    std::vector<size_t> all = message_starts_;
    all.insert(all.end(), borders.begin(), borders.end());
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    rendering_.message_starts = all;
    std::optional<EncodedRendering> encoded = EncodeRendering(tokenizer, rendering_, max_tokens);
    if (!encoded) return std::nullopt;
    Ids ids{*std::move(encoded), {}, {}};
    const auto offset = [&](size_t piece) {
      const auto at = std::lower_bound(all.begin(), all.end(), piece) - all.begin();
      return ids.encoded.message_starts[static_cast<size_t>(at)];
    };
    for (const size_t start : message_starts_) ids.message_starts.push_back(offset(start));
    for (const size_t border : borders) ids.borders.push_back(offset(border));
    return ids;
  }

 private:
  Rendering rendering_;
  std::vector<size_t> message_starts_;
};

}  // namespace

Result<Timeline> Timeline::OfPrompt(std::vector<TokenId> tokens, const Codec& codec, bool cuts) {
  Timeline timeline;
  if (codec.encoder && (tokens.empty() || tokens.back() != codec.encoder->input_end)) {
    tokens.push_back(codec.encoder->input_end);
  }
  if (const auto more = std::ssize(tokens) - codec.pinned_max; codec.encoder && more > 0) {
    if (!cuts) return TooLong(codec.pinned_max);
    tokens.erase(tokens.begin(), tokens.begin() + more);
    timeline.cut_ = true;
  }
  const auto size = static_cast<int64_t>(tokens.size());
  if (codec.encoder) tokens.push_back(codec.encoder->answer_start);
  Item prompt;
  prompt.token_begin = 0;
  prompt.token_end = timeline.answer_begin_ = size;
  prompt.end = timeline.end_ = TimelineEnd::kAnswerOpen;
  timeline.AddItem(std::move(prompt));
  timeline.tokens_.Append(tokens);
  timeline.message_starts_.push_back(0);
  timeline.Pin(codec.encoder ? size : 0, codec);
  timeline.raw_ = true;
  return timeline;
}

void Timeline::AddItem(Item item) {
  item_bytes_ += BytesOf(item);
  items_.push_back(std::move(item));
}

Result<std::optional<int64_t>> Timeline::SetHead(TimelineHead head, const Codec& codec, int64_t max_tokens) {
  if (head == head_) return std::optional<int64_t>();
  const SharedList<TokenId> before = tokens_;
  const bool anew = RendersWhole(codec, true);
  head_ = std::move(head);
  if (tokens_.empty()) return std::optional<int64_t>();
  if (anew || RendersWhole(codec, true)) {
    ForgetTokens();
    return std::optional<int64_t>(0);
  }

  const auto unrendered = std::find_if(items_.begin(), items_.end(), [](const Item& item) { return !item.rendered(); });
  const auto sampled = std::find_if(items_.begin(), unrendered, [](const Item& item) { return item.sampled; });
  // Everything from the first sampled answer on keeps its ids and is moved.
  const bool has_tail = sampled != unrendered;
  const auto first = has_tail ? static_cast<size_t>(sampled - items_.begin()) : items_.size();
  const auto rendered = static_cast<size_t>(unrendered - items_.begin());
  const int64_t tail_begin = has_tail ? (first > 0 ? items_[first - 1].token_end : items_[first].token_begin) : 0;
  const std::vector<TokenId> old_tokens = tokens_.From(static_cast<size_t>(tail_begin));
  const std::vector<int64_t> old_starts = message_starts_.From(0);
  const TimelineEnd old_end = end_;
  std::vector<Item> all = items_.From(0);
  std::vector<Item> later(std::make_move_iterator(all.begin() + static_cast<ptrdiff_t>(first)),
                          std::make_move_iterator(all.end()));
  all.resize(first);
  for (Item& item : all) item.token_begin = item.token_end = -1;
  items_.Truncate(0);
  items_.Append(std::move(all));
  CutTokens(0);
  RETURN_IF_ERROR(Render(codec, false, max_tokens));

  const auto made = static_cast<int64_t>(tokens_.size());
  if (has_tail) {
    const int64_t shift = made - tail_begin;
    tokens_.Append(old_tokens);
    for (const int64_t start : old_starts) {
      if (start >= tail_begin) message_starts_.push_back(start + shift);
    }
    for (size_t i = 0; i < rendered - first; ++i) {
      later[i].token_begin += shift;
      later[i].token_end += shift;
    }
    end_ = old_end;
  }
  items_.Append(std::move(later));
  const bool same =
      before.size() == tokens_.size() && SharedList<TokenId>::CommonPrefix(before, tokens_) == before.size();
  return same ? std::optional<int64_t>() : std::optional(made);
}

bool Timeline::RendersWhole(const Codec& codec, bool open_answer) const {
  const uint32_t kinds = codec.chat.kinds_anew();
  if (kinds == 0 || items_.empty() || RendersWhole(codec)) return RendersWhole(codec);
  KindReader reader(codec.chat.tags(), head_.tools.size() > 0);
  if (head_.instructions) reader.Add({ChatRole::kSystem, *head_.instructions});
  for (const Item& item : items_) {
    const std::string_view text = item.text;
    reader.Add({.role = item.role,
                .text = text.substr(0, std::min(static_cast<size_t>(item.calls_at), text.size())),
                .calls = item.calls_at >= 0,
                .reasoning = item.reasoning.size() > 0 && !item.sampled});
  }
  return (reader.Kinds(open_answer) & kinds) != 0;
}

Status Timeline::Render(const Codec& codec, bool open_answer, int64_t max_tokens, bool cuts) {
  if (RendersWhole(codec, open_answer)) {
    Status rendered = RenderWhole(codec, open_answer, max_tokens, cuts);
    const bool refused = !rendered.ok() && rendered.reason() != ContextOverflow::kReason;
    if (!refused || codec.refuses || RendersWhole(codec)) return rendered;
  }
  Joined joined;
  std::vector<size_t> borders;  // [begin, end) of each rendered item, then the start of the opened answer
  const bool fresh = tokens_.empty();
  TimelineEnd end = fresh ? TimelineEnd::kNothing : end_;
  // Rendered items come first. Those without ids (possible for an empty system message) are rendered again, because
  // later text depends on them.
  const auto rendered =
      std::partition_point(items_.begin(), items_.end(), [](const Item& item) { return item.rendered(); });
  const auto first = fresh ? size_t{0} : static_cast<size_t>(rendered - items_.begin());
  std::vector<Item> added = items_.From(first);
  if (fresh && (head_.instructions || (head_.tools.size() > 0 && !BeginsWithSystem(added)))) {
    std::vector<ChatMessage> system;
    if (head_.instructions) system.push_back({ChatRole::kSystem, *head_.instructions});
    const Rendering part = codec.chat.Render(system, end, false, head_.tools);
    end = part.end;
    joined.Add(part);
  }
  const bool has_ids = SyntaxOf(codec.chat.tool_syntax()).has_ids();
  ModelCallIds ids_of_calls(items_, has_ids ? first : 0, codec.chat.tool_syntax());
  const auto question =
      std::find_if(added.rbegin(), added.rend(), [](const Item& item) { return item.role == ChatRole::kUser; });
  const Item* const last_question = question == added.rend() ? nullptr : &*question;
  for (Item& item : added) {
    ChatMessage message{item.role, ContentOf(item), item.calls_at};
    if (has_ids) message.model_ids = ids_of_calls.Next(item);
    message.reasoning = item.reasoning;
    message.current = last_question == nullptr || &item > last_question;
    Rendering part = codec.chat.Render({&message, 1}, end, false, head_.tools);
    RETURN_IF_ERROR(PlaceImagesOf({&item, 1}, codec, &part));
    end = part.end;
    borders.push_back(joined.pieces() + (part.message_starts.empty() ? 0 : part.message_starts.back()));
    joined.Add(part);
    borders.push_back(joined.pieces());
    item.end = end;
  }
  if (open_answer) {
    const Rendering part = codec.chat.Render({}, end, true);
    end = part.end;
    borders.push_back(joined.pieces() + (part.message_starts.empty() ? 0 : part.message_starts.back()));
    joined.Add(part);
  }

  const auto base = static_cast<int64_t>(tokens_.size());
  const std::optional<Joined::Ids> fitting = joined.Encode(codec.tokenizer, borders, max_tokens - base);
  if (!fitting) return TooLong(max_tokens);
  const Joined::Ids& ids = *fitting;
  tokens_.Append(ids.encoded.ids);
  for (const int64_t start : ids.message_starts) {
    const int64_t position = base + start;
    if (message_starts_.empty() || position > message_starts_.back()) message_starts_.push_back(position);
  }
  size_t border = 0;
  for (Item& item : added) {
    item.token_begin = base + ids.borders[border++];
    item.token_end = base + ids.borders[border++];
  }
  items_.Truncate(first);
  items_.Append(std::move(added));
  answer_begin_ = open_answer ? base + ids.borders[border] : -1;
  reopened_.reset();
  end_ = end;
  if (fresh) Pin(ids.encoded.pinned_tokens, codec);
  return Status::Ok();
}

Result<std::optional<Timeline::WholeEncoding>> Timeline::EncodeWhole(const Codec& codec, bool open_answer,
                                                                     size_t left_out, int64_t max_tokens,
                                                                     size_t cut) const {
  std::vector<ChatMessage> messages;
  if (head_.instructions) messages.push_back({ChatRole::kSystem, *head_.instructions});
  const size_t first = messages.size();
  ModelCallIds ids_of_calls(items_, left_out, codec.chat.tool_syntax());
  const std::vector<Item> items = items_.From(left_out);
  for (const Item& item : items) {
    const std::string text = ContentOf(item);
    messages.push_back({item.role, text.substr(messages.size() == first ? cut : 0), item.calls_at});
    messages.back().model_ids = ids_of_calls.Next(item);
    messages.back().reasoning = item.reasoning;
  }
  ASSIGN_OR_RETURN(Rendering rendering, codec.chat.RenderWhole(messages, open_answer, head_.tools, codec.tokenizer));
  RETURN_IF_ERROR(PlaceImagesOf(items, codec, &rendering));
  Joined joined;
  joined.Add(rendering);
  std::optional<Joined::Ids> fitting = joined.Encode(codec.tokenizer, {}, max_tokens);
  if (!fitting) return std::optional<WholeEncoding>();
  const std::vector<int64_t>& starts = fitting->message_starts;
  return std::optional<WholeEncoding>({.ids = std::move(fitting->encoded.ids),
                                       .starts = {starts.begin() + static_cast<ptrdiff_t>(first), starts.end()},
                                       .pinned = fitting->encoded.pinned_tokens,
                                       .left_out = left_out,
                                       .cut = cut > 0,
                                       .end = rendering.end});
}

Result<std::optional<Timeline::WholeEncoding>> Timeline::EncodeEnd(const Codec& codec, int64_t most) const {
  const size_t last = items_.size() - 1;
  const std::string_view text = items_[last].text;
  const auto encode = [&](size_t cut) { return EncodeWhole(codec, true, last, most, cut); };
  size_t enough = text.size();  // number of bytes to cut that is known to suffice
  ASSIGN_OR_RETURN(std::optional<WholeEncoding> input, encode(enough));
  const auto longest = static_cast<size_t>(kMostBytesOfInputToken * most);
  size_t begin = text.size() > longest ? text.size() - longest : 0, end = enough;  // candidates for that number
  while (input && begin < end) {
    const size_t middle = begin + (end - begin) / 2;
    size_t cut = middle;
    while (cut < enough && (text[cut] & 0xc0) == 0x80) ++cut;  // a whole character
    if (cut == enough) {
      end = middle;
      continue;
    }
    ASSIGN_OR_RETURN(std::optional<WholeEncoding> longer, encode(cut));
    if (!longer) {
      begin = cut + 1;
      continue;
    }
    input = std::move(longer);
    enough = cut;
    end = middle;
  }
  return input;
}

Result<std::optional<Timeline::WholeEncoding>> Timeline::EncodeInput(const Codec& codec, int64_t max_tokens,
                                                                     bool cuts) const {
  if (head_.tools.size() > 0) {
    return InvalidArgument("This model has an encoder and does not support tools.", "tools", "unsupported_value");
  }
  const int64_t most = std::max<int64_t>(0, std::min(codec.pinned_max, max_tokens - 1));
  size_t least = items_.size() - 1, enough = least;  // number of items to leave out
  for (size_t bytes = 0; least > 0; --least) {       // texts longer than any that fits need no look
    bytes += items_[least - 1].text.size();
    if (bytes > static_cast<size_t>(kMostBytesOfInputToken * most)) break;
  }
  ASSIGN_OR_RETURN(std::optional<WholeEncoding> input, EncodeWhole(codec, true, least, most));
  if (!input && least < enough) {
    ASSIGN_OR_RETURN(input, EncodeWhole(codec, true, enough, most));
    while (input && least + 1 < enough) {
      const size_t middle = least + (enough - least) / 2;
      ASSIGN_OR_RETURN(std::optional<WholeEncoding> longer, EncodeWhole(codec, true, middle, most));
      if (longer) input = std::move(longer);
      (input->left_out == middle ? enough : least) = middle;
    }
  }
  if (!input && cuts) {
    ASSIGN_OR_RETURN(input, EncodeEnd(codec, most));
  }
  if (!input) return input;
  input->pinned = std::ssize(input->ids);
  input->starts.back() = input->pinned;
  input->ids.push_back(codec.encoder->answer_start);
  return input;
}

Status Timeline::RenderWhole(const Codec& codec, bool open_answer, int64_t max_tokens, bool cuts) {
  const bool unrendered = !items_.empty() && !items_.back().rendered();
  if (items_.empty() || (!unrendered && !open_answer)) return Status::Ok();
  ASSIGN_OR_RETURN(std::optional<WholeEncoding> anew, codec.encoder ? EncodeInput(codec, max_tokens, cuts)
                                                                    : EncodeWhole(codec, open_answer, 0, max_tokens));
  if (!anew) return TooLong(codec.encoder ? std::min(codec.pinned_max, max_tokens) : max_tokens);
  if (!codec.encoder) KeepSampled(codec.tokenizer, &*anew);
  const std::vector<TokenId>& ids = anew->ids;
  const std::vector<int64_t>& starts = anew->starts;

  // Equal ids stay: their memory is shared with the previous timeline, and sampled ids remain marked as sampled.
  const auto kept = std::mismatch(tokens_.begin(), tokens_.end(), ids.begin(), ids.end()).second - ids.begin();
  tokens_.Truncate(static_cast<size_t>(kept));
  tokens_.Append(std::span(ids).subspan(static_cast<size_t>(kept)));
  message_starts_.Truncate(0);
  for (const int64_t start : starts) {
    if (message_starts_.empty() || start > message_starts_.back()) message_starts_.push_back(start);
  }
  std::vector<Item> items = items_.From(0);
  for (size_t i = 0; i < items.size(); ++i) {
    Item& item = items[i];
    const size_t message = i - anew->left_out;
    const bool told = i >= anew->left_out;
    const int64_t begin = told ? starts[message] : 0, end = !told                         ? 0
                                                            : message + 1 < starts.size() ? starts[message + 1]
                                                                                          : std::ssize(ids);
    if (item.token_begin == begin && item.token_end == end && end <= kept) continue;
    item.token_begin = begin;
    item.token_end = end;
    item.end = TimelineEnd::kMessageDone;
    item.sampled = told && message < anew->sampled.size() && anew->sampled[message];
  }
  items_.Truncate(0);
  items_.Append(std::move(items));
  answer_begin_ = open_answer ? starts.back() : -1;
  reopened_.reset();
  end_ = open_answer ? anew->end : TimelineEnd::kMessageDone;
  cut_ = anew->cut;
  Pin(anew->pinned, codec);
  return Status::Ok();
}

int64_t Timeline::left_out() const {
  const auto told = std::find_if(items_.begin(), items_.end(), [](const Item& item) { return item.token_end != 0; });
  return told - items_.begin() + (cut_ ? 1 : 0);
}

// A single pinned token is the BOS: there is no system message. An encoder's input is pinned entirely.
void Timeline::Pin(int64_t wanted, const Codec& codec) {
  if (wanted <= 1 && !codec.encoder) wanted = kPinnedWithoutSystem;
  pinned_ = std::min({wanted, codec.pinned_max, std::ssize(tokens_)});
}

void Timeline::CloseAnswer(Item answer, std::span<const TokenId> output, const Codec& codec) {
  CHECK_GE(answer_begin_, 0);
  if (output.empty()) {
    if (reopened_) {
      items_.push_back(*std::exchange(reopened_, std::nullopt));
      answer_begin_ = -1;
    } else {
      KeepItems(items_.size());
    }
    return;
  }
  if (reopened_) {
    answer.id = reopened_->id;
    const std::string& before = reopened_->text;
    const std::string& more = answer.text;
    answer.text = before + more;
    if (reopened_->reasoning.size() > 0) {
      const std::string &reasoned = reopened_->reasoning, &further = answer.reasoning;
      answer.reasoning = reasoned + further;
    }
    reopened_.reset();
  }
  tokens_.Append(output);
  const bool ended =
      codec.tokenizer.IsSpecial(output.back()) && codec.chat.EndsAnswer(codec.tokenizer.TokenName(output.back()));
  end_ = ended ? TimelineEnd::kAnswerEnded : TimelineEnd::kAnswerOpen;
  answer.role = ChatRole::kAssistant;
  answer.sampled = true;
  answer.token_begin = answer_begin_;
  answer.token_end = static_cast<int64_t>(tokens_.size());
  answer.end = end_;
  answer_begin_ = -1;
  AddItem(std::move(answer));
}

// A cut answer may end with the id of an end of turn, which ignore_eos or min_tokens made the model pass.
bool Timeline::CanReopen() const {
  return !items_.empty() && items_.back().role == ChatRole::kAssistant && items_.back().sampled &&
         !items_.back().complete && items_.back().token_end == static_cast<int64_t>(tokens_.size()) &&
         (end_ == TimelineEnd::kAnswerOpen || end_ == TimelineEnd::kAnswerEnded);
}

void Timeline::ReopenAnswer() {
  CHECK(CanReopen());
  reopened_ = items_.back();
  items_.Truncate(items_.size() - 1);
  answer_begin_ = reopened_->token_begin;
}

void Timeline::TrimReopened(size_t bytes) {
  if (!reopened_ || bytes == 0) return;
  const std::string& text = reopened_->text;
  reopened_->text = text.substr(0, text.size() - std::min(bytes, text.size()));
}

void Timeline::ForgetTokens() {
  const bool forgets = forgotten() || !tokens_.empty();
  std::vector<Item> all = items_.From(0);
  for (Item& item : all) {
    item.token_begin = item.token_end = -1;
    item.sampled = false;
    item.end = TimelineEnd::kNothing;
  }
  items_.Truncate(0);
  items_.Append(std::move(all));
  answer_begin_ = -1;
  CutTokens(0);
  if (forgets) end_ = TimelineEnd::kForgotten;
}

void Timeline::KeepItems(size_t count) {
  CHECK_LE(count, items_.size());
  TruncateItems(count);
  answer_begin_ = -1;
  while (count > 0 && !items_[count - 1].rendered()) --count;
  if (count == 0) {
    CutTokens(0);
    return;
  }
  CutTokens(items_[count - 1].token_end);
  end_ = items_[count - 1].end;
}

int64_t Timeline::bytes() const {
  size_t sum = tokens_.size() * sizeof(TokenId) + message_starts_.size() * sizeof(int64_t);
  sum += head_.instructions.value_or("").size() + head_.tools.size();
  return static_cast<int64_t>(sum) + item_bytes_;
}

void Timeline::TruncateItems(size_t count) {
  for (size_t i = count; i < items_.size(); ++i) item_bytes_ -= BytesOf(items_[i]);
  items_.Truncate(count);
}

void Timeline::CutTokens(int64_t size) {
  tokens_.Truncate(static_cast<size_t>(size));
  message_starts_.Truncate(static_cast<size_t>(std::lower_bound(message_starts_.begin(), message_starts_.end(), size) -
                                               message_starts_.begin()));
  if (size == 0) {
    pinned_ = 0;
    if (!forgotten()) end_ = TimelineEnd::kNothing;
  }
}

}  // namespace ringside
