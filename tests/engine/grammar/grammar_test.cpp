#include "engine/grammar/grammar.h"

#include <algorithm>
#include <random>

#include "base/limits.h"
#include "engine/grammar/byte_automaton.h"
#include "engine/text/unicode.h"
#include "tests/engine/grammar/grammar_harness.h"

namespace ringside {
namespace {

TEST(CodePoints, Utf8SequencesSpellExactlyTheRange) {
  std::mt19937 random(3);
  for (int i = 0; i < 60; ++i) {
    const uint32_t kMost[] = {0x90, 0x900, 0x11000, 0x10FFFF};
    uint32_t first = random() % kMost[i % 4], last = random() % kMost[(i / 4) % 4];
    if (first > last) std::swap(first, last);
    CodePointSet set;
    set.Add(first, last);
    GrammarBudget budget;
    GrammarSource source(budget);
    const auto automaton = ByteAutomaton::Of(source, source.Characters(set));
    ASSERT_TRUE(automaton.ok());
    for (int j = 0; j < 400; ++j) {
      uint32_t c = j % 2 == 0 ? random() % 0x110000 : first + (random() % 5) - 2 + (j % 4 == 1 ? last - first : 0);
      if (c > 0x10FFFF || (c >= 0xD800 && c <= 0xDFFF)) continue;
      std::string bytes;
      AppendCodePoint(c, &bytes);
      EXPECT_EQ(automaton->Accepts(bytes), first <= c && c <= last) << first << " " << last << " " << c;
    }
    EXPECT_FALSE(automaton->Accepts("\xED\xA0\x80"));  // a surrogate
    EXPECT_FALSE(automaton->Accepts("\xC0\x80"));      // overlong
  }
}

TEST(CodePoints, Sets) {
  const CodePointSet set = {{'a', 'c'}, {'b', 'e'}, {'g', 'g'}, {'f', 'f'}};
  ASSERT_EQ(set.ranges().size(), 1u);
  EXPECT_EQ(set.ranges()[0], (CodePointRange{'a', 'g'}));
  EXPECT_TRUE(set.And(set.Complement()).empty());
  EXPECT_EQ(set.Without({{'c', 'd'}}).ranges().size(), 2u);
  EXPECT_EQ(CodePointSet::All().ranges().size(), 2u);  // surrogates are excluded
  EXPECT_TRUE(CodePointSet::All().Complement().empty());
}

const char* const kArithmetic =
    "root ::= sum\nsum ::= product ((\"+\" | \"-\") product)*\nproduct ::= item (\"*\" item)*\n"
    "item ::= [0-9]+ | \"(\" sum \")\" | \"\\\"\" [^\"\\\\\\x00-\\x1f]* \"\\\"\" | \"the\" | \"ab\"{1,3}";

// A mask allows exactly the tokens that the matcher accepts, according to the byte-by-byte definition.
void ExpectExactMasks(const std::shared_ptr<const Grammar>& grammar, const Tokenizer& tokenizer, uint32_t seed,
                      int turns) {
  std::mt19937 random(seed);
  for (int turn = 0; turn < turns; ++turn) {
    GrammarMatcher matcher(grammar);
    for (int step = 0; step < 25 && matcher.may_continue(); ++step) {
      const std::vector<TokenId> allowed = Allowed(matcher, tokenizer);
      for (TokenId id = 0; id < tokenizer.vocab_size(); ++id) {
        GrammarMatcher next = matcher;
        const bool taken = next.Take(id).ok();
        ASSERT_EQ(std::ranges::binary_search(allowed, id), taken) << "token '" << tokenizer.TokenName(id) << "'";
      }
      ASSERT_FALSE(allowed.empty());
      ASSERT_TRUE(matcher.Take(allowed[random() % allowed.size()]).ok());
    }
  }
}

TEST(Grammar, MasksAreExact) {
  const auto grammar = Compile(AnswerFormat::Kind::kGbnf, kArithmetic);
  ASSERT_TRUE(grammar.ok()) << grammar.status().message();
  ExpectExactMasks(*grammar, TestTokenizer(), 1, 30);
}

TEST(Grammar, MasksAreExactInJson) {
  const auto any = Compile(AnswerFormat::Kind::kJsonObject, "");
  ASSERT_TRUE(any.ok()) << any.status().message();
  ExpectExactMasks(*any, TestTokenizer(), 2, 30);
  const auto schema = Compile(AnswerFormat::Kind::kJsonSchema, R"({"type":"object","properties":{
      "name":{"type":"string","maxLength":6},"a":{"type":"integer","minimum":-3,"maximum":120},
      "ab":{"type":"string","pattern":"^a.c"},"abc":{"type":["null","boolean"]}},"additionalProperties":{"type":"number"}})");
  ASSERT_TRUE(schema.ok()) << schema.status().message();
  ExpectExactMasks(*schema, TestTokenizer(), 3, 40);
}

TEST(Grammar, FirstTokenDropsItsLeadingSpace) {
  const ListTokenizer tokenizer({" ", " yes", "yes", "no", " no", "<|end|>", " ", "  yes"}, /*strips=*/true);
  const auto grammar = Compile(AnswerFormat::Kind::kRegex, "(yes)( no)?", tokenizer);
  ASSERT_TRUE(grammar.ok());
  GrammarMatcher matcher(*grammar);
  EXPECT_EQ(Allowed(matcher, tokenizer), (std::vector<TokenId>{1, 2}));
  ASSERT_TRUE(matcher.Take(1).ok());
  EXPECT_TRUE(matcher.may_end());
  EXPECT_EQ(Allowed(matcher, tokenizer), (std::vector<TokenId>{0, 4, 6}));
  ASSERT_TRUE(matcher.Take(0).ok());  // a space is allowed now
  EXPECT_EQ(Allowed(matcher, tokenizer), (std::vector<TokenId>{3}));
  ASSERT_TRUE(matcher.Take(3).ok());
  EXPECT_FALSE(matcher.may_continue());
}

TEST(Grammar, SpecialTokensHaveNoText) {
  const auto grammar = Compile(AnswerFormat::Kind::kRegex, ".*");
  ASSERT_TRUE(grammar.ok());
  GrammarMatcher matcher(*grammar);
  const auto end = static_cast<TokenId>(TestTokenizer().vocab_size() - 1);
  EXPECT_FALSE(std::ranges::binary_search(Allowed(matcher, TestTokenizer()), end));
  EXPECT_FALSE(matcher.Take(end).ok());
}

// A token may end inside a character, but only a continuation of that character may follow.
TEST(Grammar, TokensMaySplitCharacters) {
  const auto grammar = Compile(AnswerFormat::Kind::kRegex, "\xE2\x82\xAC|\xE2\x82\xAD.*");
  ASSERT_TRUE(grammar.ok());
  GrammarMatcher matcher(*grammar);
  ASSERT_TRUE(matcher.Append("\xE2\x82").ok());
  EXPECT_EQ(Allowed(matcher, TestTokenizer()), (std::vector<TokenId>{0xAC, 0xAD}));
  EXPECT_FALSE(matcher.Append("a").ok());
  ASSERT_TRUE(matcher.Append("\xAD").ok());
  for (const TokenId id : Allowed(matcher, TestTokenizer())) {
    const std::string_view bytes = TestTokenizer().TokenBytes(id);
    EXPECT_NE(ReadUtf8Unit(bytes).kind, Utf8Unit::Kind::kInvalid) << id;
  }
}

constexpr const char* kBrackets = "root ::= \"[\" root* \"]\" | \"(\" root* \")\"";

TEST(Grammar, DropsCachedStatesAndContinues) {
  const auto grammar = Compile(AnswerFormat::Kind::kGbnf, kBrackets);
  ASSERT_TRUE(grammar.ok());
  GrammarMatcher early(*grammar);
  ASSERT_TRUE(early.Append("[([").ok());
  std::mt19937 random(5);
  size_t most = 0, least_after = SIZE_MAX;
  for (int i = 0; i < 60; ++i) {  // every nesting has different states
    std::string open, close;
    for (int j = 0; j < 3000; ++j) {
      const bool square = random() % 2 == 0;
      open += square ? '[' : '(';
      close.insert(close.begin(), square ? ']' : ')');
    }
    GrammarMatcher matcher(*grammar);
    ASSERT_TRUE(matcher.Append(open).ok());
    ASSERT_TRUE(matcher.Append(close).ok());
    EXPECT_TRUE(matcher.may_end());
    const size_t bytes = (*grammar)->bytes();
    if (bytes < most) least_after = bytes;
    most = std::max(most, bytes);
  }
  EXPECT_LT(most, 2 * static_cast<size_t>(limits::kMaxGrammarTableBytes));
  EXPECT_LT(least_after, most) << "nothing was ever forgotten";
  EXPECT_EQ(Allowed(early, TestTokenizer()).size(), 4u);  // ( [ [[ ]
  ASSERT_TRUE(early.Append("])]").ok());
  EXPECT_TRUE(early.may_end());
}

// It would have to be recomputed from the beginning for every token.
TEST(Grammar, EndlessNestingIsAnError) {
  const auto grammar = Compile(AnswerFormat::Kind::kGbnf, kBrackets);
  ASSERT_TRUE(grammar.ok());
  GrammarMatcher matcher(*grammar);
  std::mt19937 random(6);
  Status status;
  for (int i = 0; i < 400'000 && status.ok(); ++i) status = matcher.Append(random() % 2 == 0 ? "[" : "(");
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.message().find("nested too deeply"), std::string::npos) << status.message();
}

TEST(Grammar, ExcessiveWorkIsAnError) {
  // Thousands of simultaneous states; every token is checked against each state.
  const auto grammar = Compile(AnswerFormat::Kind::kRegex, "(a|b|ab|aa)*a(a|b|ab|aa){30000}");
  ASSERT_TRUE(grammar.ok()) << grammar.status().message();
  GrammarMatcher matcher(*grammar);
  Status status = matcher.Append(std::string(30'000, 'a'));
  std::vector<uint32_t> mask(static_cast<size_t>(TestTokenizer().vocab_size() + 31) / 32);
  if (status.ok()) status = matcher.FillMask(mask);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.message().find("too ambiguous"), std::string::npos);
}

// The cost of an ambiguous grammar's masks is charged to the answer that needs them.
TEST(Grammar, WorkIsChargedToItsAnswer) {
  const char* const hostile =
      "root ::= x\nx ::= [a-z ] | [a-z ] x | [a-z ] x x | [a-z ] x x x | \"(\" x x \")\" | [a-z ] y x\ny ::= x x | "
      "\"-\" x";
  const auto grammar = Compile(AnswerFormat::Kind::kGbnf, hostile),
             other = Compile(AnswerFormat::Kind::kGbnf, kArithmetic);
  ASSERT_TRUE(grammar.ok() && other.ok()) << grammar.status().message();
  GrammarMatcher matcher(*grammar), neighbour(*other);
  std::vector<uint32_t> mask(static_cast<size_t>(TestTokenizer().vocab_size() + 31) / 32);
  std::mt19937 random(1);
  Status status;
  for (int tokens = 0; status.ok() && tokens < 3000; ++tokens) {
    status = matcher.FillMask(mask);
    if (status.ok()) status = matcher.Take(static_cast<TokenId>("ab( -"[random() % 3]));
    ASSERT_LE(matcher.work_left(), limits::kMaxGrammarWorkAtOnce);
    ASSERT_GE(matcher.work_left(), -limits::kMaxGrammarWorkAtOnce) << "one step looked at twice as much as it may";
  }
  EXPECT_TRUE(neighbour.FillMask(mask).ok());
  if (!status.ok()) {
    EXPECT_NE(status.message().find("too ambiguous"), std::string::npos) << status.message();
  }
}

TEST(Grammar, CachedStatesAreFree) {
  const auto grammar = Compile(AnswerFormat::Kind::kJsonObject, "");
  const std::string text = R"({"a": [1, 2, {"b": "some text"}], "c": null})";
  for (int i = 0; i < 2; ++i) {
    GrammarMatcher matcher(*grammar);
    for (const char c : text) ASSERT_TRUE(matcher.Take(static_cast<uint8_t>(c)).ok());
    std::vector<uint32_t> mask(static_cast<size_t>(TestTokenizer().vocab_size() + 31) / 32);
    ASSERT_TRUE(matcher.FillMask(mask).ok());
    if (i == 1) {
      EXPECT_GE(matcher.work_left(), limits::kMaxGrammarWorkAtOnce - 64);
    }
  }
}

TEST(GrammarCache, KeepsAndEvicts) {
  GrammarCache cache(TestTokenizer());
  const AnswerFormat format{.kind = AnswerFormat::Kind::kRegex, .text = "a+", .param = "text.format.regex"};
  const auto first = cache.Get(format), again = cache.Get(format);
  ASSERT_TRUE(first.ok() && again.ok());
  EXPECT_EQ(*first, *again);
  AnswerFormat other = format;
  other.kind = AnswerFormat::Kind::kGbnf;  // the same text
  EXPECT_EQ(cache.Get(other).status().param(), "text.format.regex");
  EXPECT_EQ(cache.size(), 1u);
  EXPECT_EQ(*cache.Get({}), nullptr);
  for (int i = 0; i < 1100; ++i) {
    ASSERT_TRUE(cache.Get({.kind = AnswerFormat::Kind::kRegex, .text = std::to_string(i)}).ok());
  }
  EXPECT_EQ(cache.size(), 1024u);
  EXPECT_NE(*cache.Get(format), *first);
  const AnswerFormat large{.kind = AnswerFormat::Kind::kRegex, .text = std::string(300'000, 'a'), .param = "p"};
  EXPECT_EQ(cache.Get(large).status().reason(), "string_above_max_length");
  EXPECT_EQ(cache.Get({.kind = AnswerFormat::Kind::kRegex, .text = "\xFF", .param = "p"}).status().reason(),
            "invalid_value");
}

AnswerFormat LargeFormat(int number) {
  return {.kind = AnswerFormat::Kind::kRegex, .text = std::to_string(number) + "[a-z]{1,60000}", .param = "p"};
}

TEST(GrammarCache, CountsItsBytes) {
  GrammarCache cache(TestTokenizer());
  const int64_t none = cache.bytes();
  int64_t one = 0;
  {
    const auto grammar = cache.Get(LargeFormat(0));
    ASSERT_TRUE(grammar.ok()) << grammar.status().ToString();
    one = cache.bytes() - none;
    EXPECT_GE(one, 60'000 * 20);
    GrammarMatcher matcher(*grammar);
    ASSERT_TRUE(matcher.Append("0" + std::string(20'000, 'a')).ok());  // its table grows
    std::vector<uint32_t> mask(static_cast<size_t>(TestTokenizer().vocab_size() + 31) / 32);
    ASSERT_TRUE(matcher.FillMask(mask).ok());
    EXPECT_GE(cache.bytes(), none + 2 * one);
  }
  for (int i = 1; i < 200; ++i) {
    ASSERT_TRUE(cache.Get(LargeFormat(i)).ok());
    ASSERT_LE(cache.bytes(), limits::kMaxGrammarCacheBytes + one);
  }
  EXPECT_LT(cache.size(), 200u);  // none is in use: all can be evicted
}

TEST(GrammarCache, OwnerIsLimitedToItsCacheShare) {
  GrammarCache cache(TestTokenizer());
  std::vector<std::shared_ptr<const Grammar>> used;
  Status refused;
  for (int i = 0; i < 300 && refused.ok(); ++i) {
    auto grammar = cache.Get(LargeFormat(i), "greedy");
    refused = grammar.status();
    if (grammar.ok()) used.push_back(*grammar);
  }
  EXPECT_EQ(refused.code(), StatusCode::kOverloaded) << refused.ToString();
  EXPECT_LE(cache.bytes(), limits::kMaxGrammarCacheBytes);
  EXPECT_TRUE(cache.Get(LargeFormat(0), "greedy").ok());  // another answer with it costs nothing
  EXPECT_TRUE(cache.Get(LargeFormat(1000), "other").ok());
  used.pop_back();
  EXPECT_TRUE(cache.Get(LargeFormat(1001), "greedy").ok());
  used.clear();
  EXPECT_TRUE(cache.Get(LargeFormat(1002), "greedy").ok());
}

}  // namespace
}  // namespace ringside
