// The steps that turn text into words before the token model: normalizer steps, then pre-tokenizer steps, as plain
// data, with the semantics of the `tokenizers` library. THREAD: any.
#pragma once

#include <string>

namespace ringside {

/// A step's pattern: a literal, or a regular expression in Oniguruma's Ruby syntax, as in tokenizer.json.
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
    kPrepend,       // `text`, unless the input is empty
    kPrecompiled,   // `text` is SentencePiece's charsmap
    kByteLevel,     // maps bytes to the byte-level alphabet
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
    kPrefixSpace,  // adds a space before a word without one
    kByteLevel,    // maps bytes to the byte-level alphabet
    kMetaspace,    // replaces spaces by `replacement`, also prepended per `prefix`; with `split`, each starts a word
    kScripts,      // splits where the script changes; removes spaces before the first character
  };
  enum class Behaviour { kIsolated, kRemoved, kMergedWithPrevious, kMergedWithNext, kContiguous };
  enum class Prefix { kNever, kFirst, kAlways };

  Kind kind = Kind::kSplit;
  TextPattern pattern = {};
  Behaviour behaviour = Behaviour::kIsolated;
  bool invert = false;  // gaps between matches count as matches
  std::string replacement = {};
  Prefix prefix = Prefix::kNever;
  bool split = false;
  bool operator==(const PreTokenizerStep&) const = default;
};

}  // namespace ringside
