// What a caller asks of the session table: who asks, what is to be answered and how. Plain values, checked by the
// table.
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
#include "session/chat/reasoning_spec.h"
#include "session/chat/timeline.h"
#include "session/journal/journal.h"
#include "session/tools/answer_form.h"

namespace ringside {

class Grammar;

/// Who asks: the authenticated principal and, for what is visible to one socket only, the connection (0 = none).
struct Caller {
  std::string principal;
  uint64_t connection = 0;
  TraceContext trace = {};  // which the log names with what is asked
};

using Metadata = std::vector<std::pair<std::string, std::string>>;

/// What a session may set for itself; absent = the server's.
struct WindowOverrides {
  std::optional<int64_t> memory_len, session_len;
  std::optional<Eviction> eviction;
  std::string adapter;  // of SessionTableOptions::adapters, until a turn names another; "" = none
};

struct NewItem {
  ChatRole role = ChatRole::kUser;
  std::string text;  // UTF-8
  // As an Item has them.
  int64_t calls_at = -1;
  std::string call_ids;
  std::vector<size_t> part_begins = {};  // of the content parts, in `text`; none = it is not in parts
  std::string reasoning = {};            // of an assistant's, beside `text`
  bool reasoning_cleared = false;        // it had reasoning, which an edit removed: a timeline that holds it differs
};

/// Appends a content part. REQUIRES: no calls yet.
void AddPart(std::string_view text, NewItem* item);
/// Puts `separator` between the content parts, which are one text then. `trims`: each loses the white space around it.
void JoinParts(std::string_view separator, NewItem* item, bool trims = false);

/// What may be called, as a request says it.
struct ToolSet {
  std::string lines;                         // as TimelineHead has them
  std::vector<std::string> names;            // theirs, in order
  std::vector<bool> strict;                  // as ToolCallRules has them
  std::vector<std::string> places;           // as ToolCallRules has them
  std::string schema_param = ".parameters";  // likewise
};

/// What a client asks when it comes back.
struct ResumeRequest {
  std::string session;                   // "conv_..." or the "resp_..." of a chain
  std::optional<uint64_t> epoch, after;  // as known from the last OnResumed and the last event's number
  std::optional<JournalPosition> known;  // the last record that it was told of
};

/// A prompt without a chat template: its text, special tokens read as such, or its token ids.
struct RawPrompt {
  std::string text;
  std::vector<TokenId> tokens;  // empty = of the text
  bool begins = true;           // the text gets SessionTableOptions::text_begin in front, unless it has it
  bool scored = false;          // the response has their log probabilities, too; with sampling.logprobs
  bool cut = false;             // of more tokens than the window holds, those behind it are left out
  bool chat = false;            // the tokens end with the template's usual generation prompt: the answer may reason
  bool embedded = false;        // the response is the mean of their hidden states; with max_output_tokens 0
};

/// A checked request for an answer.
struct TurnSpec {
  std::string conversation;          // "" = none; not together with previous_response_id
  std::string previous_response_id;  // "" = none
  std::vector<NewItem> input;        // may be empty: answer what stands there
  std::optional<std::string> instructions;
  std::optional<ToolSet> tools;  // absent = as told so far; of no tools = none any more
  /// Absent = any, or, of an answer that goes on, the one it began with. The table makes it that.
  std::optional<ToolChoice> tool_choice;
  WindowOverrides window;  // for a new chain only, but for the adapter
  /// Of SessionTableOptions::adapters, for this turn and those behind it; "" = none; absent = the session's.
  std::optional<std::string> adapter;
  ReasoningSpec reasoning;
  SamplingParams sampling;
  std::vector<std::string> stop_strings;
  std::vector<std::string> bad_words;  // as text; SamplingParams::bad_words has those given as ids
  std::vector<TokenId> stop_ids;
  bool ignore_end_of_turn = false;
  std::optional<AnswerFormat> format;         // likewise, absent = text
  std::shared_ptr<const Grammar> grammar;     // of the format, made by the table
  std::shared_ptr<const Grammar> recipients;  // TurnRequest::recipients, made by the table
  std::optional<int64_t> max_output_tokens;
  bool warm_up = false;
  bool truncates = false;          // takes new input that is longer than the window, whose beginning is forgotten
  bool offers_truncation = false;  // the request could have asked for that: an error may advise it
  bool history_slides = false;     // with carries_history: what precedes the new messages may be longer than the window
  bool store = true;
  bool background = false;  // nobody need hear it: it does not end for want of listeners
  /// `input`, or `raw`, is the whole history, with `instructions`, `tools` and `window` (absent = none): the turn
  /// extends the owner's chain that ends where the new messages begin, or forks a timeline that shares a beginning with
  /// it. Neither conversation nor previous_response_id. With store = false nothing is written to disk.
  bool carries_history = false;
  /// With previous_response_id: the turn forks the chain at its beginning, and `input` replaces all of its messages.
  bool drops_history = false;
  std::string compaction;                // of a turn whose history was compacted: Response::compaction
  std::optional<int64_t> compact_above;  // input tokens above which the face compacts the history first
  bool keeps_to_template = false;  // a conversation that the model's template refuses is an error (Codec::refuses)
  /// With carries_history: the client's name for the conversation; "" = none. It decides between timelines of the owner
  /// that share equally much with the history.
  std::string timeline_key;
  bool token_ids = false;  // the client is sent them, see Response
  /// One of several answers to one history, and not the first (TurnRequest::may_branch). With previous_response_id the
  /// chain is forked.
  bool may_branch = false;
  std::optional<RawPrompt> raw;  // in place of `input`, with carries_history and without store
  std::string request_key;       // not "": a repeated request re-attaches to the first one's response
  /// What `request_key` is.
  enum class Sending {
    kNamed,  // an id that the client chose: whatever has it is the same request
    kFirst,  // what is asked, in a request that says that it is sent for the first time: another turn
    kAgain,  // likewise, but it says that it is sent again: it re-attaches to the newest response of its key that runs
             // or has ended not long ago, unless that failed
  };
  Sending sending = Sending::kNamed;
  /// What the Response keeps of the request as the wire repeats it, once it is known in what form the answer comes;
  /// null = nothing. Called by StartTurn.
  std::function<std::string(const AnswerForm&)> echo;

  ToolChoice& choice() { return tool_choice ? *tool_choice : tool_choice.emplace(); }
};

struct TurnTicket {
  std::string response_id;
  bool reattached = false;  // the sink was given the events of a response that existed already
};

}  // namespace ringside
