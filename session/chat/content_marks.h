// What users say must never become a special token. A template that is run anew gives one text in which content and
// markup cannot be told apart, so the places in content where a special token could begin are marked before it runs,
// and found again in what it makes of them. Pure; one thread at a time.
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

  /// `content` with a mark wherever it spells a special token, ends like the beginning of one, or begins like the end
  /// of one.
  std::string Mark(std::string_view content) const;

  static bool Has(std::string_view marked);
  /// `plain`, the template's text of content without marks, with the marks of `marked`. A mark at the border of a part
  /// keeps the template from trimming it: the two may differ in white space. Where they differ in more, `marked`.
  static std::string MoveMarks(std::string_view marked, std::string_view plain);

  /// A marked text without its marks, in pieces: a marked character stands alone and is no markup. `borders` are places
  /// in the marked text, ascending; a piece begins at each, and they become the indices of these.
  static std::vector<TextPiece> TakeApart(std::string_view marked, std::vector<size_t>* borders);

 private:
  std::vector<std::string> specials_;
  ByteTree begins_;
};

}  // namespace ringside
