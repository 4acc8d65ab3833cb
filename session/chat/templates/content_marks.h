// Prevents text of users from becoming special tokens. The output of a whole-conversation template does not distinguish
// content from markup; so positions in the content where a special token could start are marked before the template
// runs, and located in its output. Pure.
// THREAD: one at a time.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/text/byte_tree.h"
#include "engine/text/tokenizer.h"

namespace ringside {

class ContentMarks {
 public:
  explicit ContentMarks(const Tokenizer& tokenizer);

  /// Inserts a mark wherever `content` contains a special token, ends with a prefix of one, or starts with a suffix of
  /// one.
  std::string Mark(std::string_view content) const;

  static bool Has(std::string_view marked);
  /// Transfers the marks of `marked` to `plain`, the template's output for unmarked content. A mark at the edge of a
  /// part prevents the template from trimming it, so the two may differ in white space. If they differ in more, returns
  /// `marked`.
  static std::string MoveMarks(std::string_view marked, std::string_view plain);

  /// Splits a marked text into pieces without marks: a marked character becomes a separate piece that is not markup.
  /// `borders` are ascending offsets in the marked text; a piece starts at each, and they are replaced by piece
  /// indices.
  static std::vector<TextPiece> TakeApart(std::string_view marked, std::vector<size_t>* borders);

 private:
  std::vector<std::string> specials_;
  ByteTree begins_;
};

}  // namespace ringside
