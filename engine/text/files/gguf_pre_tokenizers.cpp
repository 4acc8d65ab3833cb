#include "engine/text/files/gguf_pre_tokenizers.h"

#include <algorithm>
#include <array>

#include "engine/text/pipeline/patterns.h"
#include "engine/text/unicode.h"

namespace ringside {
namespace {

using namespace patterns;  // NOLINT

constexpr const char* kLineBreak = R"re([\r\n])re";
constexpr const char* kSpacedLatin =
    R"re(\s?[A-Za-z\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF}\x{1C4}-\x{293}\x{295}-\x{2AF}\x{370}-\x{373}\x{376}\x{377}\x{37B}-\x{37D}\x{37F}\x{386}\x{388}-\x{38A}\x{38C}\x{38E}-\x{3A1}\x{3A3}-\x{3F5}\x{3F7}-\x{481}\x{48A}-\x{52F}\x{531}-\x{556}\x{10A0}-\x{10C5}\x{13A0}-\x{13F5}\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA}\x{1CBD}-\x{1CBF}\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A}\x{1E00}-\x{1F15}\x{1F18}-\x{1F1D}\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57}\x{1F59}\x{1F5B}\x{1F5D}\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC}\x{1FBE}\x{1FC2}-\x{1FC4}\x{1FC6}-\x{1FCC}\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB}\x{1FE0}-\x{1FEC}\x{1FF2}-\x{1FF4}\x{1FF6}-\x{1FFC}\x{2102}\x{2107}\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D}\x{2124}\x{2126}\x{2128}\x{212A}-\x{212D}\x{212F}-\x{2134}\x{2139}\x{213C}-\x{213F}\x{2145}-\x{2149}\x{214E}\x{2183}\x{2184}\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4}\x{2CEB}-\x{2CEE}\x{2CF2}\x{2CF3}\x{A640}-\x{A66D}\x{A680}-\x{A69B}\x{A722}-\x{A76F}\x{A771}-\x{A787}\x{A78B}-\x{A78E}\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06}\x{FB13}-\x{FB17}\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A}\x{10400}-\x{1044F}\x{104B0}-\x{104D3}\x{104D8}-\x{104FB}\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2}\x{118A0}-\x{118DF}\x{1E900}-\x{1E943}]+)re";
constexpr const char* kSpacedMarks =
    R"re(\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3000}-\x{3002}]+)re";
constexpr const char* kSpaceAtEnd = R"re(\s+$)re";
constexpr const char* kCjk = R"re([\x{4E00}-\x{9FA5}\x{800}-\x{4E00}\x{AC00}-\x{D7FF}]+)re";
constexpr const char* kSpacedLetters = R"re(\s?\p{L}+)re";
constexpr const char* kSpacedPunctuation = R"re(\s?\p{P}+)re";
constexpr const char* kUpToThreeDigits = R"re(\p{N}{1,3})re";
constexpr const char* kHanAndKana = R"re([\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)re";
constexpr const char* kDeepseek3 =
    R"re([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)re";
constexpr const char* kSpark =
    R"re([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+|[\r\n]|\s+(?!\S)|\s+)re";
constexpr const char* kEastAsian =
    R"re([\x{AC00}-\x{D7A3}\x{3131}-\x{318E}]+|[\x{FF01}\x{2026}\x{201C}\x{201D}\x{2018}\x{2019}\x{2014}\x{FF1A}\x{FF1B}\x{FF0C}\x{3001}-\x{303F}\x{FE30}-\x{FE4F}]+|[\x{3105}-\x{312F}]+|[\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)re";
constexpr const char* kYoutu =
    R"re([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)re";
constexpr const char* kJais2 =
    R"re((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1})re";
constexpr const char* kQwen35 =
    R"re((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)re";
constexpr const char* kBloom = R"re( ?[^(\s|[.,!?\x{2026}\x{3002}\x{FF0C}\x{3001}\x{964}\x{6D4}\x{60C}])]+)re";
constexpr const char* kSentinels = R"re(<sentinel:[0-9]+>)re";
constexpr const char* kImages = R"re((IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z)re";
constexpr const char* kTabsAndIndents = R"re(([\t\n]|    |  ))re";
constexpr const char* kPunctuationMark = R"re([\p{P}!-/:-@\[-`{-~])re";
constexpr const char* kKimi =
    R"re([\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)re";
constexpr const char* kBailing =
    R"re('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)re";
constexpr const char* kSeedCoder =
    R"re((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+)re";
constexpr const char* kUfakzeka =
    R"re([^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)re";
constexpr const char* kAsianScripts =
    R"re([\x{4E00}-\x{9FFF}\x{3400}-\x{4DBF}\x{8C48}-\x{FAFF}\x{3040}-\x{309F}\x{30A0}-\x{30FF}\x{FF65}-\x{FF9F}\x{2F00}-\x{2FDF}\x{E40}-\x{E7F}\x{E80}-\x{EFF}\x{1780}-\x{17FF}\x{1000}-\x{109F}\x{AA60}-\x{AA7F}\x{A9E0}-\x{A9FF}\x{AC00}-\x{D7AF}\x{1100}-\x{11FF}]+)re";
constexpr const char* kLines = R"re([^\n]+|[\n]+)re";
constexpr const char* kExaoneMoe =
    R"re((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+)re";
constexpr const char* kMiniCpm5 =
    R"re((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)re";
constexpr const char* kNoSpace = R"re(\S+)re";
constexpr const char* kMarks = R"re([\p{P}\$\+<=>\^~\|]+)re";
constexpr const char* kThreeDigits = R"re([0-9][0-9][0-9])re";

// A list of steps, shared by several names.
struct Style {
  std::array<const char*, 6> splits;  // each isolates its matches; null after the last
  bool nfc = false, on_characters = false;
};
constexpr Style kStyleGpt2 = {{kGpt2}}, kStyleGpt2Nfc = {{kGpt2}, true};
constexpr Style kStyleDigits = {{kSingleDigit, kGpt2}}, kStyleDigitsNfc = {{kSingleDigit, kGpt2}, true};
constexpr Style kStyleLlama3 = {{kLlama3}}, kStyleTekken = {{kTekken}}, kStyleO200k = {{kO200k}};
constexpr Style kStyleQwen2 = {{kQwen2}}, kStyleQwen2Nfc = {{kQwen2}, true}, kStyleQwen35 = {{kQwen35}, true};
constexpr Style kStyleDeepseek = {{kLineBreak, kSpacedLatin, kSpacedMarks, kSpaceAtEnd, kCjk, kDigits}};
constexpr Style kStyleDeepseekCoder = {{kLineBreak, kSpacedLetters, kSpacedPunctuation, kCjk, kSingleDigit}};
constexpr Style kStyleDeepseek3 = {{kUpToThreeDigits, kHanAndKana, kDeepseek3}};
constexpr Style kStyleSpark = {{kUpToThreeDigits, kHanAndKana, kSpark, kSingleDigit}};
constexpr Style kStyleYoutu = {{kEastAsian, kYoutu}}, kStyleJais2 = {{kJais2}};
constexpr Style kStyleBloom = {{kBloom}}, kStyleViking = {{kBloom, kSingleDigit}};
constexpr Style kStyleChameleon = {{kSentinels, kImages, kTabsAndIndents, kSingleDigit, kPunctuationMark, kGpt2}};
constexpr Style kStyleTinyAya = {{kTriplesToWordEnd, kO200k}}, kStyleKimi = {{kKimi}};
constexpr Style kStyleSuperBpe = {{kDigits, kTripleCuts}}, kStyleBailing = {{kBailing}};
constexpr Style kStyleSeedCoder = {{kSeedCoder}}, kStyleUfakzeka = {{kUfakzeka}};
constexpr Style kStyleAfmoe = {{kTriples, kAsianScripts, kDeepseek3}}, kStyleLaguna = {{kLines, kQwen2}};
constexpr Style kStyleExaoneMoe = {{kExaoneMoe}}, kStyleMiniCpm5 = {{kUpToThreeDigits, kMiniCpm5}};
constexpr Style kStyleMetaspace = {{}, false, true}, kStyleNoSpace = {{kNoSpace}, false, true};
constexpr Style kStyleDefault = {{kMarks, kGpt2, kDigits, kThreeDigits}};
constexpr Style kStyleFalcon = {{}};  // see FalconSteps

struct Named {
  std::string_view name;
  const Style* style;
  bool ignore_merges = false, begins = false;
};
// Among names with equal steps, the first one is written to files.
constexpr Named kNamed[] = {
    {"gpt-2", &kStyleGpt2},
    {"gpt2", &kStyleGpt2},
    {"phi-2", &kStyleGpt2},
    {"jina-es", &kStyleGpt2},
    {"jina-de", &kStyleGpt2},
    {"jina-v2-es", &kStyleGpt2},
    {"jina-v2-de", &kStyleGpt2},
    {"jina-v1-en", &kStyleGpt2},
    {"jina-v2-code", &kStyleGpt2},
    {"roberta-bpe", &kStyleGpt2},
    {"gigachat", &kStyleGpt2},
    {"a.x-4.0", &kStyleGpt2},
    {"mellum", &kStyleGpt2},
    {"modern-bert", &kStyleGpt2},
    {"exaone4", &kStyleGpt2},
    {"jais", &kStyleGpt2},
    {"trillion", &kStyleGpt2},
    {"granite-docling", &kStyleGpt2},
    {"olmo", &kStyleGpt2Nfc},
    {"mpt", &kStyleGpt2Nfc},
    {"smollm", &kStyleDigits},
    {"starcoder", &kStyleDigits},
    {"refact", &kStyleDigits},
    {"codeshell", &kStyleDigits},
    {"exaone", &kStyleDigits},
    {"minerva-7b", &kStyleDigits},
    {"mellum2", &kStyleDigits},
    {"command-r", &kStyleDigitsNfc},
    {"llama-bpe", &kStyleLlama3, true, true},
    {"llama3", &kStyleLlama3, true, true},
    {"llama-v3", &kStyleLlama3, true, true},
    {"falcon3", &kStyleLlama3, true, true},
    {"falcon-h1", &kStyleLlama3, true, true},
    {"pixtral", &kStyleLlama3, true, true},
    {"midm-2.0", &kStyleLlama3, true, true},
    {"lfm2", &kStyleLlama3, true, true},
    {"jina-v5-nano", &kStyleLlama3, true, true},
    {"dbrx", &kStyleLlama3},
    {"smaug-bpe", &kStyleLlama3},
    {"chatglm-bpe", &kStyleLlama3},
    {"glm4", &kStyleLlama3, true},
    {"glm5", &kStyleLlama3, true},
    {"qwen2", &kStyleQwen2Nfc},
    {"deepseek-r1-qwen", &kStyleQwen2Nfc},
    {"megrez", &kStyleQwen2Nfc},
    {"f2llmv2", &kStyleQwen2Nfc},
    {"stablelm2", &kStyleQwen2},
    {"hunyuan", &kStyleQwen2},
    {"solar-open", &kStyleQwen2},
    {"grok-2", &kStyleQwen2},
    {"kormo", &kStyleQwen2},
    {"qwen35", &kStyleQwen35},
    {"tekken", &kStyleTekken, true, true},
    {"gpt-4o", &kStyleO200k},
    {"llama4", &kStyleO200k},
    {"kanana2", &kStyleO200k},
    {"talkie", &kStyleO200k},
    {"minimax-m2", &kStyleO200k},
    {"granite-embed-multi-97m", &kStyleO200k, true},
    {"deepseek-llm", &kStyleDeepseek},
    {"deepseek-coder", &kStyleDeepseekCoder},
    {"deepseek-v3", &kStyleDeepseek3},
    {"hunyuan-dense", &kStyleDeepseek3},
    {"joyai-llm", &kStyleDeepseek3},
    {"hy_v4", &kStyleDeepseek3},
    {"spark2_5", &kStyleSpark},
    {"youtu", &kStyleYoutu, true},
    {"jais-2", &kStyleJais2},
    {"falcon", &kStyleFalcon},
    {"bloom", &kStyleBloom},
    {"poro-chat", &kStyleBloom},
    {"gpt3-finnish", &kStyleBloom},
    {"viking", &kStyleViking},
    {"chameleon", &kStyleChameleon, false, true},
    {"tiny_aya", &kStyleTinyAya},
    {"cohere2moe", &kStyleTinyAya},
    {"kimi-k2", &kStyleKimi},
    {"superbpe", &kStyleSuperBpe},
    {"bailingmoe", &kStyleBailing},
    {"bailingmoe2", &kStyleBailing},
    {"llada-moe", &kStyleBailing},
    {"seed-coder", &kStyleSeedCoder},
    {"ufakzeka", &kStyleUfakzeka},
    {"afmoe", &kStyleAfmoe},
    {"laguna", &kStyleLaguna},
    {"exaone-moe", &kStyleExaoneMoe},
    {"minicpm5", &kStyleMiniCpm5, true},
    {"gemma4", &kStyleMetaspace},
    {"sarvam-moe", &kStyleMetaspace},
    {"granite-embed-multi-311m", &kStyleMetaspace},
    {"whitespace", &kStyleNoSpace},
    {"default", &kStyleDefault},
};

struct Architecture {
  std::string_view name, pre_tokenizer;
};
constexpr Architecture kArchitectures[] = {
    {"gpt2", "gpt-2"},         {"gptneox", "olmo"},        {"gptj", "gpt-2"},
    {"opt", "gpt-2"},          {"phi2", "phi-2"},          {"mpt", "mpt"},
    {"olmo", "olmo"},          {"bloom", "bloom"},         {"falcon", "falcon"},
    {"qwen2", "qwen2"},        {"qwen2moe", "qwen2"},      {"starcoder", "starcoder"},
    {"refact", "refact"},      {"command-r", "command-r"}, {"starcoder2", "starcoder"},
    {"codeshell", "codeshell"}};

// Falcon's own order: it searches for digits in the byte-level alphabet, where bytes of other characters may be digits,
// too.
std::vector<PreTokenizerStep> FalconSteps() {
  using Behaviour = PreTokenizerStep::Behaviour;
  PreTokenizerStep punctuation = Isolate(kPunctuation), digits = Isolate(kSingleDigit);
  punctuation.behaviour = digits.behaviour = Behaviour::kContiguous;
  return {punctuation, Isolate(kGpt2), {.kind = PreTokenizerStep::Kind::kByteLevel}, digits, Isolate(kThreeDigits)};
}

GgufPreTokenizer Expand(const Named& named) {
  const Style& style = *named.style;
  GgufPreTokenizer made{
      .on_characters = style.on_characters, .ignore_merges = named.ignore_merges, .begins = named.begins};
  if (named.style == &kStyleFalcon) {
    made.steps = FalconSteps();
    return made;
  }
  if (style.nfc) made.normaliser = {{.kind = NormaliserStep::Kind::kNfc}};
  if (named.style == &kStyleMetaspace) {
    made.normaliser = {{.kind = NormaliserStep::Kind::kReplace,
                        .pattern = {.text = " ", .literal = true},
                        .text = std::string(kLowerOneEighthBlock)}};
  }
  for (const char* split : style.splits) {
    if (split != nullptr) made.steps.push_back(Isolate(split));
  }
  if (!style.on_characters) made.steps.push_back({.kind = PreTokenizerStep::Kind::kByteLevel});
  return made;
}

}  // namespace

std::optional<GgufPreTokenizer> FindGgufPreTokenizer(std::string_view name) {
  const auto* found = std::ranges::find(kNamed, name, &Named::name);
  return found == std::end(kNamed) ? std::nullopt : std::optional(Expand(*found));
}

std::string_view GgufPreTokenizerOf(std::string_view architecture) {
  const auto* found = std::ranges::find(kArchitectures, architecture, &Architecture::name);
  return found == std::end(kArchitectures) ? "default" : found->pre_tokenizer;
}

std::optional<std::string_view> NameGgufPreTokenizer(const TokenizerData& data) {
  for (const Named& named : kNamed) {
    const GgufPreTokenizer known = Expand(named);
    if (known.normaliser == data.normaliser && known.steps == data.pre_tokenizer &&
        known.ignore_merges == data.ignore_merges &&
        known.on_characters == (data.kind != TokenizerData::Kind::kByteLevelBpe)) {
      return named.name;
    }
  }
  return std::nullopt;
}

}  // namespace ringside
