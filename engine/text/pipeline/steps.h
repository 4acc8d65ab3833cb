// The steps that turn text into words before a model of tokens sees it: a normaliser's, then a pre-tokenizer's, as
// plain data, with the meaning that the library `tokenizers` gives them. Any thread.
#pragma once

#include <string>

namespace ringside {

/// What a step searches for: a literal, or a regular expression in Oniguruma's Ruby syntax, as tokenizer.json has them.
struct TextPattern {
  std::string text;
  bool literal = false;
  bool operator==(const TextPattern&) const = default;
};

struct NormaliserStep {
  enum class Kind {
    kNfc,
    kNfd,
    kNfkc,
    kNfkd,
    kLowercase,
    kStripAccents,  // removes every mark
    kStrip,         // white space, at `left` and `right`
    kReplace,       // `pattern` by `text`
    kPrepend,       // `text`, unless there is nothing to put it in front of
    kPrecompiled,   // `text` is SentencePiece's charsmap
    kByteLevel,     // bytes become characters of GPT-2's alphabet
  };
  Kind kind = Kind::kNfc;
  TextPattern pattern = {};
  std::string text = {};
  bool left = false, right = false;
  bool operator==(const NormaliserStep&) const = default;
};

struct PreTokenizerStep {
  enum class Kind {
    kSplit,        // at the matches of `pattern`
    kPrefixSpace,  // a space in front of a word that has none
    kByteLevel,    // bytes become characters of GPT-2's alphabet
    kMetaspace,    // spaces become `replacement`, prepended by `prefix`; with `split`, each begins a word
  };
  enum class Behaviour { kIsolated, kRemoved, kMergedWithPrevious, kMergedWithNext, kContiguous };
  enum class Prefix { kNever, kFirst, kAlways };

  Kind kind = Kind::kSplit;
  TextPattern pattern = {};
  Behaviour behaviour = Behaviour::kIsolated;
  bool invert = false;  // the gaps between matches count as matches
  std::string replacement = {};
  Prefix prefix = Prefix::kNever;
  bool split = false;
  bool operator==(const PreTokenizerStep&) const = default;
};

}  // namespace ringside
