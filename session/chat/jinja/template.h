// Jinja chat templates as in transformers' environment (jinja2's immutable sandbox with trim_blocks, lstrip_blocks,
// break and continue, {% generation %}, raise_exception, strftime_now, and tojson as json.dumps), without Python. A
// template can only compute: it reaches no file, no clock and no method with side effects outside it, its work and
// memory are bounded, and it cannot end the process. Not supported: include, import, extends and block, recursive
// loops, star arguments, integers beyond 64 bits, autoescaping.
#pragma once

#include <ctime>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "session/chat/jinja/value.h"

namespace ringside::jinja {

struct RenderLimits {
  int64_t steps = 1 << 24;  // an expression, 16 bytes of text and a list element are one step each
  size_t bytes = 64 << 20;  // of any text, including the output
};

using Variables = std::vector<std::pair<std::string, Value>>;

/// Status::reason() of an error raised by the template itself.
inline constexpr const char* kRaisedByTemplate = "raised_by_template";

/// Immutable.
/// THREAD: any.
class Template {
 public:
  /// ERRORS: kInvalidArgument, with the line, for invalid source and for an unknown statement, filter or test.
  static Result<Template> Parse(std::string_view source);

  /// `now`: the time for strftime_now.
  /// ERRORS: kInvalidArgument, with the line, if the template fails, raises or exceeds a limit.
  Result<std::string> Render(const Variables& variables, const std::tm& now, const RenderLimits& limits = {}) const;

 private:
  struct Tree;
  explicit Template(std::shared_ptr<const Tree> tree) : tree_(std::move(tree)) {}
  std::shared_ptr<const Tree> tree_;
};

}  // namespace ringside::jinja
