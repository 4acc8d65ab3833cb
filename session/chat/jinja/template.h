// Chat templates in Jinja: what transformers' environment makes of one (jinja2's immutable sandbox with trim_blocks,
// lstrip_blocks, break and continue, {% generation %}, raise_exception, strftime_now and a tojson that is json.dumps),
// made here without Python. A template can compute, and nothing else: it reaches no file, no clock and no method that
// changes a value, its work and its memory are bounded, and nothing that it says can end the process. Left out:
// include, import, extends and block, recursive loops, arguments with stars, integers beyond 64 bits, HTML escaping by
// itself.
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
  int64_t steps = 1 << 24;  // an expression is one, and so are 16 bytes of text and an element of a list
  size_t bytes = 64 << 20;  // of any one text, the output among them
};

using Variables = std::vector<std::pair<std::string, Value>>;

/// Status::reason() of an error that the template itself has raised.
inline constexpr const char* kRaisedByTemplate = "raised_by_template";

/// Immutable; any thread.
class Template {
 public:
  /// kInvalidArgument, with the line, for what is no template, and for a statement, filter or test that is not known
  /// here.
  static Result<Template> Parse(std::string_view source);

  /// `now`: what strftime_now tells. kInvalidArgument, with the line, where the template fails, raises or goes beyond a
  /// limit.
  Result<std::string> Render(const Variables& variables, const std::tm& now, const RenderLimits& limits = {}) const;

 private:
  struct Tree;
  explicit Template(std::shared_ptr<const Tree> tree) : tree_(std::move(tree)) {}
  std::shared_ptr<const Tree> tree_;
};

}  // namespace ringside::jinja
