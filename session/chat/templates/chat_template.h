// Chat templates: render messages as the text that a model was trained on. A template is learned by running the model's
// Jinja source on known texts (or selected by name) and is then plain data: no turn runs Jinja. Rendering is
// incremental, to match an append-only cache: each turn renders its new messages only, and the concatenation equals the
// template's rendering of the whole conversation. A template without that property renders the whole conversation each
// turn. Immutable, cheap to copy.
// THREAD: any.
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

/// Parses "system", "developer" (equivalent), "user" or "assistant". Tool results have more fields than a role.
/// ERRORS: kInvalidArgument.
Result<ChatRole> ParseChatRole(std::string_view name);
const char* ChatRoleName(ChatRole role);

/// `text` without the white space around it, as templates trim it.
std::string_view TrimText(std::string_view text);

struct ChatMessage {
  ChatRole role = ChatRole::kUser;
  std::string content;  // UTF-8 with kImageByte for an image; never parsed as markup. An assistant's includes its tool
                        // calls, see session/tools
  int64_t calls_at = -1;  // offset of the calls in `content`; -1 = none
  /// If the tools' syntax has ids: the model's ids of its calls, or of the call that this is the result of.
  std::vector<std::string> model_ids = {};
  std::string reasoning = {};  // an assistant's, in addition to `content`
  bool current = false;        // no question follows: templates may keep the reasoning
};

/// State at the end of a rendered timeline: everything Render needs to know of the text before. Kept by the session
/// between turns.
enum class TimelineEnd : uint8_t {
  kNothing = 0,  // no text yet
  kUserOpen =
      1,  // inside the first user message, which so far holds only the system text (Llama 2, Gemma) or the tools
  kMessageDone = 2,  // after a complete message
  kAnswerOpen = 3,   // inside the assistant's message: a generation prompt, possibly sampled ids, no end
  kAnswerEnded = 4,  // the last id ends the answer, see EndsAnswer
  kResultsOpen = 6,  // inside a user message of tool results: more may follow
  kForgotten = 5,    // of a timeline: its ids were discarded; its text must be rendered again (from kNothing)
};

/// A piece that is an image (image_pieces.h), and the tokens that take its place.
struct ImagePiece {
  size_t piece = 0;
  std::vector<TokenId> tokens;
};

/// The new text of one turn. Every message starts at a piece boundary.
struct Rendering {
  std::vector<TextPiece> pieces;
  // ascending indices into `pieces`, one per message started (including the answer opened by
  std::vector<size_t> message_starts;
  // the generation prompt; its index may be pieces.size()); a system text inside a
  // user message starts that message
  size_t pinned_pieces = 0;                 // pieces[0, n) are BOS and the system message; 0 in later turns
  TimelineEnd end = TimelineEnd::kNothing;  // input of the next Render if no ids are sampled in between
  std::vector<ImagePiece> images = {};      // ascending

  std::string Text() const;  // concatenation of the pieces
};

/// A rendering as token ids, with message boundaries as offsets into `ids`. A boundary inside a token (possible if the
/// markup is not a special token) moves to the start of the next token.
struct EncodedRendering {
  std::vector<TokenId> ids;
  std::vector<int64_t> message_starts;
  int64_t pinned_tokens = 0;
};
/// Tokenizes a rendering; nullopt above `max_tokens` ids, in which case tokenizing stopped early.
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
  /// Spelling of the tokens that templates call bos_token and eos_token; "" if the tokenizer has none.
  struct Facts {
    std::string bos, eos;
    std::string text_begin;  // prefix of a text without a template; "" = none
  };

  /// Creates a template from Jinja source. Without a learnable format (template_format.h) it renders whole
  /// conversations.
  /// ERRORS: kInvalidArgument with the reason if the source cannot run here or does not render the messages.
  static Result<ChatTemplate> Recognise(std::string_view jinja_source, const Facts& facts);
  /// Creates the template of an encoder-decoder model (Codec::encoder), whose encoder reads the source's output; "" =
  /// the messages' texts, one per line. It renders whole conversations.
  /// ERRORS: as Recognise.
  static Result<ChatTemplate> ForEncoder(std::string_view jinja_source, const Facts& facts);
  /// Creates a template by a name of Names(). Missing facts default to the family's usual spelling.
  /// ERRORS: kInvalidArgument for an unknown name.
  static Result<ChatTemplate> Named(std::string_view name, const Facts& facts);
  static Result<ChatTemplate> Named(std::string_view name) { return Named(name, Facts{}); }
  static std::vector<std::string_view> Names();

  /// "chatml", "llama3", ...: Named(name()) is similar, although a learned template may differ in details. "own": no
  /// family is similar.
  const std::string& name() const;
  /// Known differences from the template's own rendering, for the log; "" = none.
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

  /// True if the rendering of earlier messages depends on later ones: RenderWhole must then be used instead of Render.
  /// `with_tools`: the conversation has tools; some templates append only without them.
  bool renders_whole(bool with_tools = false) const;
  /// Kinds of conversations (ConversationKind) that Render would write otherwise than the template does: RenderWhole is
  /// used for these unless the template refuses them.
  uint32_t kinds_anew() const;
  /// Of kWithTags.
  const std::vector<std::string>& tags() const;
  /// Jinja source of a template that renders whole conversations.
  const std::string& source() const;
  /// Renders the whole conversation (at least one message) by running the template: see WholeTemplate.
  /// ERRORS: kInvalidArgument for a conversation that the template rejects.
  Result<Rendering> RenderWhole(std::span<const ChatMessage> messages, bool add_generation_prompt,
                                std::string_view tools, const Tokenizer& tokenizer) const;

  /// Resolves a request's reasoning settings.
  /// ERRORS: as ReasoningSettings.
  Result<SettledReasoning> Settle(const ReasoningSpec& spec) const;
  /// Returns a copy that appends `markup` to every generation prompt and has no other settings.
  ChatTemplate WithPromptEnd(std::string_view markup) const;
  /// True if it renders messages like `other`, apart from the generation prompt.
  bool WritesMessagesLike(const ChatTemplate& other) const;

  /// The syntax for tools and calls: the template's own, or Hermes' if it has none.
  ToolSyntaxName tool_syntax() const { return tool_syntax_; }

  /// Separator of a message's content parts: the template's if it iterates over parts, otherwise a newline.
  const std::string& part_separator(ChatRole role) const;
  /// Whether it drops the white space around each of them.
  bool trims_parts(ChatRole role) const;
  /// Text that the template writes for an image in a user's message; "" if it writes none, or it is unknown.
  const std::string& image_markup() const;
  /// Text that ends an assistant message ("<|im_end|>"), a special token of the model; "" for the plain format.
  const std::string& end_of_turn() const;
  /// True if an answer whose last token is this special token has ended: the timeline is then at kAnswerEnded,
  /// otherwise at kAnswerOpen.
  bool EndsAnswer(std::string_view token) const;
  /// Text that starts an assistant message ("<|im_start|>assistant\n"); "" for Llama 2 and Mistral.
  const std::string& assistant_open() const;
  /// Texts that a model without an end of turn writes in place of stopping (plain: "\nUser:"); never displayed.
  const std::vector<std::string>& stop_strings() const;

 private:
  explicit ChatTemplate(std::shared_ptr<const TemplateFormat> format);
  ChatTemplate(WholeTemplate whole, std::string caveat);
  static Result<ChatTemplate> OfRun(TemplateRun run, const Facts& facts);
  std::shared_ptr<const TemplateFormat> format_;
  std::shared_ptr<const WholeTemplate> whole_;  // null: the format renders everything
  bool always_whole_ = false;                   // else `whole_` renders some kinds of conversations only
  ToolSyntaxName tool_syntax_ = ToolSyntaxName::kHermes;
  std::shared_ptr<const ReasoningSettings> reasoning_;  // null: no settings are supported
  std::string prompt_end_;                              // appended to every generation prompt
};

}  // namespace ringside
