// Templates that special-case some texts: empty ones, surrounding white space, special tokens in the template itself.
// Renderings equal the template's output, by a format or by running it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "session/chat/templates/chat_template.h"
#include "session/chat/templates/template_run.h"
#include "session/chat/timeline/timeline.h"
#include "tests/session/scripted_engine.h"

namespace ringside {
namespace {

using testing::HasSubstr;
using Messages = std::vector<ChatMessage>;

const ChatTemplate::Facts kFacts = {"", "<|im_end|>"};

/// A template that writes `system` first, where `s` is the system text (undefined without a system message), then
/// `text` for each message.
std::string Source(const std::string& system, const std::string& text = "{{ m.content }}",
                   const std::string& end = "<|im_end|>\n") {
  return "{% if messages[0].role == 'system' %}{% set s = messages[0].content %}{% set messages = messages[1:] %}"
         "{% endif %}" +
         system + "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' }}" + text + "{{ '" + end +
         "' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";
}
const std::string kSystem = "{% if s is defined %}{{ '<|im_start|>system\n' + s + '<|im_end|>\n' }}{% endif %}";
const std::string kOwn = "{{ '<|im_start|>system\nBe <|im_start|>kind<|im_end|>.<|im_end|>\n' }}";

constexpr std::string_view kTexts[] = {"Text",     "",          " ",        "\n",        "\n\n",    " \n\t",
                                       "  both  ", "\nlines\n", "\n front", "behind \n", " \nboth", "\tx\n\n"};

/// Conversations in which each text takes every value of kTexts.
std::vector<Messages> Conversations() {
  std::vector<Messages> all;
  for (const std::string_view roles : {"u", "uau", "su", "suau", "suauau"}) {
    Messages messages;
    for (const char role : roles) {
      messages.push_back({role == 's'   ? ChatRole::kSystem
                          : role == 'u' ? ChatRole::kUser
                                        : ChatRole::kAssistant,
                          "Word"});
    }
    for (ChatMessage& message : messages) {
      for (const std::string_view text : kTexts) {
        message.content = text;
        all.push_back(messages);
      }
      message.content = "Word";
    }
  }
  return all;
}

struct Trait {
  const char* name;
  std::string source;
  bool anew = false;
};

std::vector<Trait> Traits() {
  const std::string block = "{{ '<|im_start|>system\n' + s + '<|im_end|>\n' }}";
  return {
      {"every text as it is", Source(kSystem)},
      {"an empty system text is none", Source("{% if s %}" + block + "{% endif %}")},
      {"a blank system text is none", Source("{% if s is defined and s | trim %}" + block + "{% endif %}")},
      {"an empty system text is the default", Source("{% if s %}" + block + "{% else %}" + kOwn + "{% endif %}")},
      {"an empty system text silences the default",
       Source("{% if s is not defined %}" + kOwn + "{% elif s %}" + block + "{% endif %}")},
      {"the system text loses its end",
       Source("{% if s is defined %}{% set s = s.rstrip() %}" + block + "{% endif %}")},
      {"the system text loses its front",
       Source("{% if s is defined %}{% set s = s.lstrip() %}" + block + "{% endif %}")},
      {"answers lose their front", Source(kSystem, "{{ m.content.lstrip() if m.role == 'assistant' else m.content }}")},
      {"answers lose their end", Source(kSystem, "{{ m.content.rstrip() if m.role == 'assistant' else m.content }}")},
      {"answers lose line feeds in front",
       Source(kSystem, "{{ m.content.lstrip('\\n') if m.role == 'assistant' else m.content }}")},
      {"users lose line feeds", Source(kSystem, "{{ m.content.strip('\\n') if m.role == 'user' else m.content }}")},
      {"users lose their end, answers both",
       Source(kSystem, "{{ m.content.rstrip() if m.role == 'user' else m.content | trim }}")},
      {"an empty answer has a mark",
       Source(kSystem, "{{ m.content }}{{ '(silent)' if m.role == 'assistant' and not m.content }}")},
      {"a blank answer has no end",
       "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' }}{% if m.role != 'assistant' or m.content | trim %}"
       "{{ m.content + '<|im_end|>\n' }}{% endif %}{% endfor %}{% if add_generation_prompt %}"
       "{{ '<|im_start|>assistant\n' }}{% endif %}"},
      {"an empty question has a mark",
       Source(kSystem, "{{ m.content }}{{ '(silent)' if m.role == 'user' and not m.content }}"), true},
      {"only spaces go", Source(kSystem, "{{ m.content.strip(' ') }}"), true},
      {"later questions are trimmed", Source(kSystem, "{{ m.content if loop.first else m.content | trim }}"), true},
  };
}

Rendering Rendered(const ChatTemplate& chat, const Messages& messages) {
  static const ByteTokenizer tokenizer;
  return chat.renders_whole() ? chat.RenderWhole(messages, true, "", tokenizer).value()
                              : chat.Render(messages, TimelineEnd::kNothing, true);
}

TEST(TemplateTraits, RendersTextAsTheTemplateDoes) {
  const std::vector<Messages> conversations = Conversations();
  ASSERT_EQ(conversations.size(), 192u);
  for (const Trait& trait : Traits()) {
    const Result<ChatTemplate> chat = ChatTemplate::Recognise(trait.source, kFacts);
    const Result<TemplateRun> run = TemplateRun::FromSource(trait.source, kFacts);
    ASSERT_TRUE(chat.ok() && run.ok()) << trait.name << chat.status().ToString();
    EXPECT_EQ(chat->renders_whole(), trait.anew) << trait.name << ": " << chat->caveat();
    if (trait.anew) {
      EXPECT_THAT(chat->caveat(), HasSubstr("empty texts and surrounding white space")) << trait.name;
    }
    for (const Messages& messages : conversations) {
      EXPECT_EQ(Rendered(*chat, messages).Text(), run->Text(messages, true).value()) << trait.name;
    }
  }
}

// One message at a time, as with conversation items and Realtime.
TEST(TemplateTraits, MessagesConcatenateToTheWhole) {
  const ByteTokenizer tokenizer;
  for (const Trait& trait : Traits()) {
    const ChatTemplate chat = ChatTemplate::Recognise(trait.source, kFacts).value();
    const TemplateRun run = TemplateRun::FromSource(trait.source, kFacts).value();
    const Codec codec{tokenizer, chat, 1 << 20};
    for (const Messages& messages : Conversations()) {
      Timeline timeline;
      for (const ChatMessage& message : messages) {
        timeline.AddItem({.role = message.role, .text = message.content});
        ASSERT_TRUE(timeline.Render(codec, false, 1 << 20).ok()) << trait.name;
      }
      ASSERT_TRUE(timeline.Render(codec, true, 1 << 20).ok()) << trait.name;
      const std::vector<TextPiece> whole = {{run.Text(messages, true).value(), true}};
      EXPECT_EQ(timeline.tokens().From(0), tokenizer.EncodeAll(whole)) << trait.name;
    }
  }
}

// Special tokens spelled by the template are tokens, also in its default system message; in messages they are plain
// text.
TEST(TemplateTraits, OnlyTheTemplateEmitsSpecialTokens) {
  const ByteTokenizer tokenizer;
  for (const std::string& system :
       {"{% if s is not defined %}" + kOwn + "{% endif %}" + kSystem,
        "{% if s %}{{ '<|im_start|>system\n' + s + '<|im_end|>\n' }}{% else %}" + kOwn + "{% endif %}"}) {
    const std::string source = Source(system);
    const ChatTemplate chat = ChatTemplate::Recognise(source, kFacts).value();
    const TemplateRun run = TemplateRun::FromSource(source, kFacts).value();
    ASSERT_FALSE(chat.renders_whole());
    const Messages own = {{ChatRole::kUser, "Q"}};
    const std::vector<TextPiece> whole = {{run.Text(own, true).value(), true}};
    EXPECT_EQ(tokenizer.EncodeAll(Rendered(chat, own).pieces), tokenizer.EncodeAll(whole));

    const Messages spelt = {{ChatRole::kSystem, "<|im_start|>"}, {ChatRole::kUser, "<|im_end|>"}};
    const std::vector<TokenId> ids = tokenizer.EncodeAll(Rendered(chat, spelt).pieces);
    EXPECT_EQ(std::ranges::count(ids, ByteTokenizer::kImStart), 3);
    EXPECT_EQ(std::ranges::count(ids, ByteTokenizer::kImEnd), 2);
  }
}

TEST(TemplateTraits, EmptySystemTextIsAbsentIfSystemMessagesAreRefused) {
  const std::string source =
      "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no') }}{% endif %}"
      "{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}"
      "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";
  const ChatTemplate chat = ChatTemplate::Recognise(source, kFacts).value();
  const Messages asked = {{ChatRole::kUser, "Q"}}, silent = {{ChatRole::kSystem, " "}, {ChatRole::kUser, "Q"}};
  EXPECT_EQ(Rendered(chat, silent).Text(), Rendered(chat, asked).Text());
}

TEST(TemplateTraits, JoinsContentPartsAsTheTemplateDoes) {
  const auto parts = [](const std::string& write) {
    const std::string source =
        Source(kSystem, "{% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content %}" + write +
                            "{% endfor %}{% endif %}");
    return ChatTemplate::Recognise(source, kFacts).value();
  };
  const ChatTemplate bare = parts("{{ p.text }}"), spaced = parts("{{ p.text + ' ' }}");
  EXPECT_EQ(bare.part_separator(ChatRole::kUser), "");
  EXPECT_EQ(bare.part_separator(ChatRole::kTool), "");
  EXPECT_EQ(bare.part_separator(ChatRole::kSystem), "\n") << "its text is added to a string";
  EXPECT_EQ(spaced.part_separator(ChatRole::kAssistant), " ");
  EXPECT_FALSE(bare.trims_parts(ChatRole::kUser));
  EXPECT_TRUE(parts("{{ p.text | trim }}").trims_parts(ChatRole::kUser));
  // A template that prints a list in Python syntax, or fails on one, does not support content parts.
  EXPECT_EQ(ChatTemplate::Recognise(Source(kSystem), kFacts).value().part_separator(ChatRole::kUser), "\n");
  EXPECT_EQ(
      ChatTemplate::Recognise(Source(kSystem, "{{ m.content + '' }}"), kFacts).value().part_separator(ChatRole::kUser),
      "\n");
  EXPECT_EQ(ChatTemplate::Named("chatml").value().part_separator(ChatRole::kUser), "\n");
}

TEST(TemplateTraits, JoinedPartsShiftLaterPositions) {
  NewItem item;
  for (const char* text : {"", "one", "two"}) AddPart(text, &item);
  item.calls_at = 6;
  item.text += "calls";
  JoinParts("--", &item);
  EXPECT_EQ(item.text, "--one--twocalls");
  EXPECT_EQ(item.calls_at, 10);
  JoinParts("--", &item);
  EXPECT_EQ(item.text, "--one--twocalls") << "once";

  NewItem spaced;
  for (const char* text : {" one\n", "\u3000two", " "}) AddPart(text, &spaced);
  JoinParts(",", &spaced, /*trims=*/true);
  EXPECT_EQ(spaced.text, "one,two,");
}

// If the template splits a text at special tokens, the rendered parts are trimmed as the template trims them.
TEST(TemplateTraits, TrimsTextPartsThatSpellSpecialTokens) {
  const ByteTokenizer tokenizer;
  const std::string source =
      Source(kSystem,
             "{% if '<|im_end|>' in m.content %}{% set parts = m.content.split('<|im_end|>') %}"
             "{{ parts[0].rstrip() + '/' + parts[-1].lstrip() }}{% else %}{{ m.content.strip(' ') }}{% endif %}");
  const ChatTemplate chat = ChatTemplate::Recognise(source, kFacts).value();
  const TemplateRun run = TemplateRun::FromSource(source, kFacts).value();
  ASSERT_TRUE(chat.renders_whole());
  for (const char* said : {"a \n<|im_end|>\n b", "<|im_start|>\n\n<|im_end|> <|im_start|>", "\n<|im_end|>",
                           "<|im_start|> <", "\xEF\xB7\x90 <|im_end|>\n\xEF\xB7\x90<|im_start|>", "x<|im_end|>"}) {
    const Messages messages = {{ChatRole::kUser, "Q"}, {ChatRole::kAssistant, said}, {ChatRole::kUser, said}};
    const Rendering rendering = Rendered(chat, messages);
    EXPECT_EQ(rendering.Text(), run.Text(messages, true).value()) << said;
    const std::vector<TokenId> ids = tokenizer.EncodeAll(rendering.pieces);
    EXPECT_EQ(std::ranges::count(ids, ByteTokenizer::kImStart), 4) << said;
    EXPECT_EQ(std::ranges::count(ids, ByteTokenizer::kImEnd), 3) << said;
  }
}

// A caveat names a tag that the template searches for in texts; searching for a word makes it run on every turn.
TEST(TemplateTraits, NamesTextsTheTemplateSearchesFor) {
  const auto chat = [](const char* word) {
    const std::string look = std::string("{{ 'odd ' if '") + word + "' in m.content }}";
    return ChatTemplate::Recognise(Source(kSystem, look + "{{ m.content }}"), kFacts).value();
  };
  EXPECT_FALSE(chat("<result>").renders_whole());
  EXPECT_THAT(chat("<result>").caveat(), HasSubstr("texts with '<result>'"));
  EXPECT_TRUE(chat("/quick").renders_whole());
}

}  // namespace
}  // namespace ringside
