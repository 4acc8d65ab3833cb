// A Jinja source brought into one spelling, so that templates which mean the same compare equal: what a chat template
// is recognised by. A value; any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace ringside {

class TemplateSource {
 public:
  /// Reads any bytes: what is no Jinja gives a source in which nothing is found.
  explicit TemplateSource(std::string_view jinja);

  /// The canonical form. Spaces outside of literals, comments and the dashes of white-space control are gone; literals
  /// are in single quotes with their escapes resolved, and joined where they are added; message.role is
  /// message['role'], x.strip() is x|trim; text between the blocks, as trim_blocks and lstrip_blocks leave it, stands
  /// in \x01...\x02.
  const std::string& code() const { return code_; }
  bool Has(std::string_view text) const { return code_.find(text) != std::string::npos; }
  /// The first text that is not empty, has no quote in it and stands between a `before` and the next `after`.
  std::optional<std::string> LiteralBetween(std::string_view before, std::string_view after) const;

 private:
  std::string code_;
};

}  // namespace ringside
