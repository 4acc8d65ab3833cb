// Regular expressions of known pre-tokenizers, in Oniguruma syntax.
#pragma once

#include <string_view>
#include <vector>

#include "engine/text/pipeline/steps.h"

namespace ringside::patterns {

extern const char kGpt2[];
extern const char kLlama3[];
extern const char kQwen2[];
extern const char kTekken[];       // Mistral NeMo
extern const char kO200k[];        // GPT-4o, gpt-oss
extern const char kSingleDigit[];  // one digit of any script
extern const char kDigits[];       // a run of digits
extern const char kPunctuation[];  // one punctuation mark of ASCII or Unicode 8
extern const char kWords[];        // a run of word characters, or of marks and symbols
extern const char kSpace[];

/// Digits in groups of three from the right. Backtracking over each group's lookahead is quadratic in a run of digits,
/// so TextMatcher matches these three patterns in one pass instead.
extern const char kTriplesToWordEnd[];  // decimal digits, if no word character follows the run
extern const char kTriples[];           // digits of any kind
extern const char kTripleCuts[];        // the empty strings before each group of decimal digits

}  // namespace ringside::patterns

namespace ringside {

/// Each match becomes a word.
PreTokenizerStep Isolate(std::string_view pattern);
/// The steps of GPT-2's byte-level pre-tokenizer, without a prefix space.
std::vector<PreTokenizerStep> Gpt2Steps();

}  // namespace ringside
