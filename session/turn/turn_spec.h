// Requests to the session table: the caller, the turn and its settings. Plain values, checked by the table.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/trace_context.h"
#include "cache/ring.h"
#include "engine/sampling/sampling.h"
#include "session/chat/templates/reasoning_spec.h"
#include "session/chat/timeline/timeline.h"
#include "session/journal/journal.h"
#include "session/tools/answer_form.h"

namespace ringside {

class Grammar;

/// The authenticated principal and, for state visible to one socket only, the connection (0 = none).
struct Caller {
  std::string principal;
  uint64_t connection = 0;
  TraceContext trace = {};  // logged with the request
};

using Metadata = std::vector<std::pair<std::string, std::string>>;

/// Settings of a session; absent = the server's.
struct WindowOverrides {
  std::optional<int64_t> memory_len, session_len;
  std::optional<Eviction> eviction;
  std::string adapter;  // one of SessionTableOptions::adapters, until a turn names another; "" = none
  /// In a server with several models: the one that the session began with; "" = no turn has begun it.
  std::string model = {};
};

/// An image of a request. The table reads it, so that a model without images is named before the image's own faults.
struct NewImage {
  std::string source;                     // "data:image/png;base64,...", another URL, or base64
  bool base64 = false;                    // `source` has no "data:"
  std::string param;                      // of the source
  Status refusal;                         // of a model that reads no images
  Status fault;                           // of the field that has the source
  ItemImage image = {};                   // once read
  std::shared_ptr<const void> held = {};  // the charge for a fetched file, until its conversation has one
};

struct NewItem {
  ChatRole role = ChatRole::kUser;
  std::string text;  // UTF-8
  // As in Item.
  int64_t calls_at = -1;
  std::string call_ids;
  std::vector<size_t> part_begins = {};  // offsets of the content parts in `text`; empty = not in parts
  std::string reasoning = {};            // an assistant's reasoning, in addition to `text`
  std::vector<NewImage> images = {};     // `text` has kImageMark for each
  bool reasoning_cleared = false;        // it had reasoning, which an edit removed: a timeline that holds it differs
};

/// Appends a content part. REQUIRES: no calls yet.
void AddPart(std::string_view text, NewItem* item);
/// Appends an image as a content part. Texts of the item lose their own kImageMark.
void AddImage(NewImage image, NewItem* item);
/// The images of an existing item.
std::vector<NewImage> ImagesOf(const Item& item);
/// Puts `separator` between the content parts, which are one text then. `trims`: each loses the white space around it.
void JoinParts(std::string_view separator, NewItem* item, bool trims = false);

/// The tools of a request.
struct ToolSet {
  std::string lines;                         // as in TimelineHead
  std::vector<std::string> names;            // names of those tools, in order
  std::vector<bool> strict;                  // as in ToolCallRules
  std::vector<std::string> places;           // as in ToolCallRules
  std::string schema_param = ".parameters";  // as in ToolCallRules
};

/// A client's request to resume.
struct ResumeRequest {
  std::string session;                   // "conv_..." or the "resp_..." of a chain
  std::optional<uint64_t> epoch, after;  // from the last OnResumed; number of the last event received
  std::optional<JournalPosition> known;  // last record that the client knows of
  bool watch = false;                    // receive the events without taking the session over
};

/// A prompt without a chat template: text, in which special tokens are recognized, or token ids.
struct RawPrompt {
  std::string text;
  std::vector<TokenId> tokens;  // empty = use the text
  bool begins = true;           // prefix the text with SessionTableOptions::text_begin unless present
  bool scored = false;          // with sampling.logprobs: the response includes the prompt's log probabilities
  bool cut = false;             // drop tokens beyond the window
  bool chat = false;            // ends with the template's usual generation prompt: the answer may reason
  bool embedded = false;        // the response is the mean of the hidden states; with max_output_tokens 0
};

/// A checked request for an answer.
struct TurnSpec {
  std::string conversation;          // "" = none; excludes previous_response_id
  std::string previous_response_id;  // "" = none
  std::vector<NewItem> input;        // may be empty: answer the existing timeline
  std::optional<std::string> instructions;
  std::optional<ToolSet> tools;  // absent = unchanged; empty = no tools from now on
  /// Absent = any, or for a continued answer the original choice; resolved by the table.
  std::optional<ToolChoice> tool_choice;
  WindowOverrides window;  // for a new chain only, except the adapter
  /// One of SessionTableOptions::adapters, for this turn and later ones; "" = none; absent = the session's.
  std::optional<std::string> adapter;
  /// In a server with several models: as the request names it, then, set by the table, the model's name.
  std::string model;
  ReasoningSpec reasoning;
  SamplingParams sampling;
  std::vector<std::string> stop_strings;
  std::vector<std::string> bad_words;  // as text; those given as ids are in SamplingParams::bad_words
  std::vector<TokenId> stop_ids;
  bool ignore_end_of_turn = false;
  std::optional<AnswerFormat> format;         // absent = text, or for a continued answer the original format
  std::shared_ptr<const Grammar> grammar;     // compiled from the format by the table
  std::shared_ptr<const Grammar> recipients;  // TurnRequest::recipients, made by the table
  std::optional<int64_t> max_output_tokens;
  bool warm_up = false;
  bool truncates = false;          // accept new input that exceeds the window; its start is dropped
  bool offers_truncation = false;  // the protocol offers truncation: an error may suggest it
  bool history_slides = false;     // with carries_history: the part before the new messages may exceed the window
  bool store = true;
  bool background = false;  // continues without listeners
  /// `input`, or `raw`, is the whole history, with `instructions`, `tools` and `window` (absent = none): the turn
  /// extends the owner's chain that ends where the new messages start, or forks a timeline with a common prefix.
  /// Excludes conversation and previous_response_id. With store = false nothing is written to disk.
  bool carries_history = false;
  /// With previous_response_id: the turn forks the chain at its beginning, and `input` replaces all of its messages.
  bool drops_history = false;
  std::string compaction;                // of a turn whose history was compacted: Response::compaction
  std::optional<int64_t> compact_above;  // input tokens above which the face compacts the history first
  bool keeps_to_template = false;  // a conversation that the model's template refuses is an error (Codec::refuses)
  /// With carries_history: the client's name for the conversation; "" = none. Selects among the owner's timelines with
  /// equally long common prefixes.
  std::string timeline_key;
  bool token_ids = false;  // the client receives them, see Response
  /// One of several answers to one history, and not the first (TurnRequest::may_branch). With previous_response_id the
  /// chain is forked.
  bool may_branch = false;
  bool admitted = false;         // a further turn of an admitted request (TurnRequest::admitted)
  std::optional<RawPrompt> raw;  // replaces `input`; requires carries_history and no store
  std::string request_key;       // not "": a repeated request re-attaches to the first one's response
  /// Meaning of `request_key`.
  enum class Sending {
    kNamed,  // chosen by the client: equal keys mean the same request
    kFirst,  // derived from the content of a first transmission: a new turn
    kAgain,  // derived from the content of a retry: re-attaches to the newest response of its key that is running
             // or ended recently without a failure
  };
  Sending sending = Sending::kNamed;
  /// Returns the part of the request that the Response keeps for the protocol, once the answer's form is known; null =
  /// nothing. Called by StartTurn.
  std::function<std::string(const AnswerForm&)> echo;

  ToolChoice& choice() { return tool_choice ? *tool_choice : tool_choice.emplace(); }
};

struct TurnTicket {
  std::string response_id;
  bool reattached = false;  // the sink received the events of an existing response
};

}  // namespace ringside
