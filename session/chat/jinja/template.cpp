#include "session/chat/jinja/template.h"

#include "session/chat/jinja/evaluator.h"
#include "session/chat/jinja/syntax.h"

namespace ringside::jinja {

struct Template::Tree {
  StatementList statements;
};

Result<Template> Template::Parse(std::string_view source) {
  constexpr size_t kMaxSourceBytes = 1 << 20;
  if (source.size() > kMaxSourceBytes) return InvalidArgument("a chat template is limited to 1 MiB");
  ASSIGN_OR_RETURN(StatementList statements, ParseSource(source));
  return Template(std::make_shared<const Tree>(Tree{std::move(statements)}));
}

Result<std::string> Template::Render(const Variables& variables, const std::tm& now, const RenderLimits& limits) const {
  return Evaluator(now, limits).Run(tree_->statements, variables);
}

}  // namespace ringside::jinja
