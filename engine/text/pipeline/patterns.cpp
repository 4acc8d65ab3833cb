#include "engine/text/pipeline/patterns.h"

namespace ringside::patterns {

const char kGpt2[] = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
const char kLlama3[] =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
const char kQwen2[] =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
const char kTekken[] =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
const char kO200k[] =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
const char kSingleDigit[] = R"(\p{N})";
const char kDigits[] = R"(\p{N}+)";
// The library's table is that of Unicode 8: exclude newer marks, and include two that have changed their class.
const char kPunctuation[] =
    R"((?![\x{61D}\x{9FD}\x{A76}\x{C77}\x{C84}\x{1B4E}\x{1B4F}\x{1B7D}-\x{1B7F}\x{2E43}-\x{2E4F}\x{2E52}-\x{2E5D}\x{10EAD}\x{10F55}-\x{10F59}\x{10F86}-\x{10F89}\x{113D4}-\x{113D8}\x{1144B}-\x{1145D}\x{11660}-\x{1166C}\x{116B9}\x{1183B}\x{11944}-\x{11946}\x{119E2}\x{11A3F}-\x{11A46}\x{11A9A}-\x{11AA2}\x{11B00}-\x{11B09}\x{11C41}-\x{11C71}\x{11EF7}\x{11EF8}\x{11F43}-\x{11F4F}\x{11FFF}\x{12FF1}\x{12FF2}\x{16E97}-\x{16E9A}\x{16FE2}\x{1E95E}\x{1E95F}])[\p{P}$+<=>^`|~\x{166D}\x{111C9}])";
const char kWords[] =
    R"([\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}]+|[^\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}\s]+)";
const char kSpace[] = R"(\s)";

const char kTriplesToWordEnd[] = R"(\d{1,3}(?=(?:\d{3})*\b))";
const char kTriples[] = R"(\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N})))";
const char kTripleCuts[] = R"((?=(\d{3})+(?!\d)))";

}  // namespace ringside::patterns

namespace ringside {

PreTokenizerStep Isolate(std::string_view pattern) {
  return {.kind = PreTokenizerStep::Kind::kSplit, .pattern = {.text = std::string(pattern)}};
}

std::vector<PreTokenizerStep> Gpt2Steps() {
  return {Isolate(patterns::kGpt2), {.kind = PreTokenizerStep::Kind::kByteLevel}};
}

}  // namespace ringside
