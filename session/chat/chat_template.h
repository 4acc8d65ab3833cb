// Chat templates: messages to the text a model was trained on. A template is learned by running the model's own Jinja
// source on known texts (or chosen by name) and is then plain data: no turn runs Jinja. Rendering is incremental, as a
// cache that only grows needs it: each turn renders its new messages only, and all renderings together are the text
// that the model's template makes of the whole conversation. A template for which that is not so renders every turn's
// whole conversation anew. Immutable, cheap to copy, safe from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "engine/grammar/tools/tool_syntax.h"
#include "engine/text/tokenizer.h"

namespace ringside {

enum class ChatRole : uint8_t { kSystem, kUser, kAssistant, kTool };

/// "system", "developer" (the same), "user" or "assistant"; kInvalidArgument for anything else. (What a tool gave has
/// more to it than a role.)
Result<ChatRole> ParseChatRole(std::string_view name);
const char* ChatRoleName(ChatRole role);

/// `text` without the white space around it, as templates trim it.
std::string_view TrimText(std::string_view text);

struct ChatMessage {
  ChatRole role = ChatRole::kUser;
  std::string content;    // UTF-8; never read as markup. An assistant's: with its tool calls, see session/tools
  int64_t calls_at = -1;  // where in `content` they begin; -1 = there are none
  /// Where the tools' syntax has ids: by which the model knows its calls, or the call that this is the result of.
  std::vector<std::string> model_ids = {};
  std::string reasoning = {};  // an assistant's, beside `content`
  bool current = false;        // no question follows: templates may keep reasoning until then
};

/// Where a conversation's timeline ends: what Render must know of everything before. Kept by the session between turns.
enum class TimelineEnd : uint8_t {
  kNothing = 0,  // no text yet
  kUserOpen =
      1,  // inside the first user message, which so far holds the system text (Llama 2, Gemma) or the tools only
  kMessageDone = 2,  // behind a whole message
  kAnswerOpen = 3,  // inside the assistant's message: a generation prompt and perhaps some sampled ids, without its end
  kAnswerEnded = 4,  // the last id ends the answer, see EndsAnswer
  kResultsOpen = 6,  // inside a user message that holds what tools gave, without its end: more may follow
  kForgotten = 5,    // of a timeline: no ids, there were others and its text is to be rendered anew (from kNothing)
};

/// The new text of one turn. Every message begins at a piece border.
struct Rendering {
  std::vector<TextPiece> pieces;
  std::vector<size_t> message_starts;  // ascending indices into `pieces`, one per message begun (the answer that the
                                       // generation prompt opens is one; its index may be pieces.size()); a system
                                       // text inside a user message begins that message
  size_t pinned_pieces = 0;            // pieces[0, n) are BOS and the system message; 0 in a later turn
  TimelineEnd end = TimelineEnd::kNothing;  // what the next Render is told, if no ids are sampled in between

  std::string Text() const;  // the pieces' concatenation
};

/// A rendering as token ids, with its message borders as offsets into `ids`. A border that lies inside a token
/// (templates whose markup is no special token) moves to the next token's start.
struct EncodedRendering {
  std::vector<TokenId> ids;
  std::vector<int64_t> message_starts;
  int64_t pinned_tokens = 0;
};
/// Nothing where there would be more than `max_tokens` ids; then the text was not tokenised to its end.
std::optional<EncodedRendering> EncodeRendering(const Tokenizer& tokenizer, const Rendering& rendering,
                                                int64_t max_tokens);

struct ReasoningSpec;
struct SettledReasoning;
struct TemplateFormat;
class ReasoningSettings;
class TemplateRun;
class WholeTemplate;

class ChatTemplate {
 public:
  /// How the tokenizer spells the tokens that templates call bos_token and eos_token; "" where there is none.
  struct Facts {
    std::string bos, eos;
    std::string text_begin;  // what begins a text that has no template; "" = nothing
  };

  /// Of a Jinja source. Where it has no format (template_format.h) it renders anew. kInvalidArgument, saying why, if it
  /// cannot be run here or does not even write what is said.
  static Result<ChatTemplate> Recognise(std::string_view jinja_source, const Facts& facts);
  /// For a model with an encoder (Codec::encoder), which reads what the source writes; "" = the messages' texts, a line
  /// each. It renders anew. Errors as of Recognise.
  static Result<ChatTemplate> ForEncoder(std::string_view jinja_source, const Facts& facts);
  /// One of Names(). Missing facts take the family's usual spelling. kInvalidArgument for another name.
  static Result<ChatTemplate> Named(std::string_view name, const Facts& facts);
  static Result<ChatTemplate> Named(std::string_view name) { return Named(name, Facts{}); }
  static std::vector<std::string_view> Names();

  /// "chatml", "llama3", ...: Named(name()) is like it, though a learned one may differ in details. "own": none is.
  const std::string& name() const;
  /// What a template's own rendering does that this one cannot, for the log; "" where they are equal.
  const std::string& caveat() const;

  /// Renders new messages behind `before`. The first messages of a conversation (kNothing) get BOS and, where the
  /// template has one and no system message is first, the default system message. After an answer, its close comes
  /// first: the end of turn unless it was sampled (kAnswerEnded), then what the template puts behind it. Roles out of
  /// order, where templates raise, are rendered one after another: see kinds_anew.
  ///
  /// `tools` ("" = none), a line of JSON each, are told once, with the first messages, where tool_syntax() has them,
  /// and are pinned as the system message is. An assistant's calls, in whatever syntax, are written in that one; where
  /// calls stand alone, what text the message has besides is left out, as the models' own templates do it.
  Rendering Render(std::span<const ChatMessage> messages, TimelineEnd before, bool add_generation_prompt,
                   std::string_view tools = {}) const;

  /// True where what the template writes of earlier messages depends on later ones: then RenderAnew is used and Render
  /// must not be. `with_tools`: the conversation has tools; some templates append without them only.
  bool renders_anew(bool with_tools = false) const;
  /// Kinds of conversations (ConversationKind) that Render would write otherwise than the template does: RenderAnew is
  /// used for these unless the template refuses them.
  uint32_t kinds_anew() const;
  /// Of kWithTags.
  const std::vector<std::string>& tags() const;
  /// The source of one that renders anew.
  const std::string& source() const;
  /// Renders the whole conversation, at least one message, as the template's own program does it: see WholeTemplate.
  /// kInvalidArgument for a conversation that it does not take.
  Result<Rendering> RenderAnew(std::span<const ChatMessage> messages, bool add_generation_prompt,
                               std::string_view tools, const Tokenizer& tokenizer) const;

  /// What a request's wishes for reasoning come to. Errors as of ReasoningSettings.
  Result<SettledReasoning> Settle(const ReasoningSpec& spec) const;
  /// A copy that appends `markup` to every generation prompt, and knows no other settings.
  ChatTemplate WithPromptEnd(std::string_view markup) const;
  /// Whether what it writes but for the generation prompt is what `other` writes.
  bool WritesMessagesLike(const ChatTemplate& other) const;

  /// How the model is told of tools and calls them: its own way, or Hermes' if its template knows none.
  ToolSyntaxName tool_syntax() const { return tool_syntax_; }

  /// The text between the content parts of a message, as the template writes it where it reads parts; else a newline.
  const std::string& part_separator(ChatRole role) const;
  /// Whether it drops the white space around each of them.
  bool trims_parts(ChatRole role) const;
  /// The text that ends an assistant message ("<|im_end|>"), a special token of the model; "" for plain.
  const std::string& end_of_turn() const;
  /// Whether an answer whose last token is this special one has its end: the timeline is then at kAnswerEnded, else at
  /// kAnswerOpen.
  bool EndsAnswer(std::string_view token) const;
  /// The text that begins an assistant message ("<|im_start|>assistant\n"); "" for Llama 2 and Mistral.
  const std::string& assistant_open() const;
  /// Texts that a model without an end of turn writes where it should have stopped (plain: "\nUser:"); never shown.
  const std::vector<std::string>& stop_strings() const;

 private:
  explicit ChatTemplate(std::shared_ptr<const TemplateFormat> format);
  ChatTemplate(WholeTemplate whole, std::string caveat);
  static Result<ChatTemplate> OfRun(TemplateRun run, const Facts& facts);
  std::shared_ptr<const TemplateFormat> format_;
  std::shared_ptr<const WholeTemplate> whole_;  // null: the format renders everything
  bool always_anew_ = false;                    // else `whole_` renders some kinds of conversations only
  ToolSyntaxName tool_syntax_ = ToolSyntaxName::kHermes;
  std::shared_ptr<const ReasoningSettings> reasoning_;  // null: nothing can be asked for
  std::string prompt_end_;                              // appended to every generation prompt
};

}  // namespace ringside
