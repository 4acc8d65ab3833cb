// Statements; expressions are in evaluate_expression.cpp.
#include "session/chat/jinja/evaluator.h"

#include <algorithm>

namespace ringside::jinja {
namespace {

using StatementKind = StatementNode::Kind;

constexpr int kMaxScopes = 200;

Status WithLine(Status status, int line) {
  if (status.ok() || status.message().starts_with("line ")) return status;
  return {status.code(), "line " + std::to_string(line) + ": " + status.message(), "", status.reason()};
}

}  // namespace

class Evaluator::InScope {
 public:
  InScope(Evaluator* evaluator, std::shared_ptr<Scope> scope)
      : evaluator_(evaluator), before_(std::exchange(evaluator->scope_, std::move(scope))) {}
  ~InScope() { evaluator_->scope_ = std::move(before_); }
  InScope(const InScope&) = delete;
  InScope& operator=(const InScope&) = delete;

 private:
  Evaluator* evaluator_;
  std::shared_ptr<Scope> before_;
};

void Scope::Set(std::string_view name, Value value) {
  for (auto& [known, old] : names) {
    if (known == name) {
      old = std::move(value);
      return;
    }
  }
  names.emplace_back(name, std::move(value));
}

Result<std::string> Evaluator::Run(const StatementList& statements, const Variables& variables) {
  auto globals = std::make_shared<Scope>(nullptr);
  for (const auto& [name, value] : variables) globals->Set(name, value);
  scope_ = std::make_shared<Scope>(std::move(globals));
  std::string out;
  out_ = &out;
  RETURN_IF_ERROR(Execute(statements));
  return out;
}

Status Evaluator::Spend(int64_t steps) {
  if (steps > steps_left_) return InvalidArgument("the template takes too many steps");
  steps_left_ -= steps;
  return Status::Ok();
}

Status Evaluator::SpendBytes(size_t bytes) {
  if (bytes > limits_.bytes) return InvalidArgument("the template's output is too long");
  return Spend(static_cast<int64_t>(bytes) / kBytesAStep);
}

Object* Evaluator::Own(std::unique_ptr<Object> object) {
  objects_.push_back(std::move(object));
  return objects_.back().get();
}

Result<std::shared_ptr<Scope>> Evaluator::NewScope(std::shared_ptr<Scope> parent) const {
  if (parent->depth >= kMaxScopes) return InvalidArgument("blocks and macros are nested too deeply");
  return std::make_shared<Scope>(std::move(parent));
}

Status Evaluator::Execute(const StatementList& statements) {
  for (const auto& statement : statements) {
    if (flow_ != Flow::kOn) break;
    RETURN_IF_ERROR(WithLine(Execute(*statement), statement->line));
  }
  return Status::Ok();
}

Status Evaluator::Execute(const StatementNode& node) {
  RETURN_IF_ERROR(Spend(1));
  if (nested_ >= kMaxNested) return InvalidArgument("macros are nested too deeply");
  ++nested_;
  const Status status = [&]() -> Status {
    switch (node.kind) {
      case StatementKind::kData:
        return Append(node.text);
      case StatementKind::kOutput: {
        ASSIGN_OR_RETURN(const Value value, Evaluate(*node.value));
        return Write(value);
      }
      case StatementKind::kFor:
        return ExecuteFor(node);
      case StatementKind::kIf:
        return ExecuteIf(node);
      case StatementKind::kSet: {
        ASSIGN_OR_RETURN(const Value value, Evaluate(*node.value));
        return Assign(node.target, value);
      }
      case StatementKind::kBreak:
      case StatementKind::kContinue:
        flow_ = node.kind == StatementKind::kBreak ? Flow::kBreak : Flow::kContinue;
        return Status::Ok();
      case StatementKind::kCall:
      case StatementKind::kMacro:
        return ExecuteCall(node);
      case StatementKind::kSetBlock:
      case StatementKind::kFilter:
      case StatementKind::kScope:
        return ExecuteScope(node);
    }
    CheckFailed(__FILE__, __LINE__, "unknown statement");
  }();
  --nested_;
  return status;
}

Status Evaluator::Write(const Value& value) {
  if (value.IsText()) return Append(value.Text());
  RETURN_IF_ERROR(Spend(value.weight()));
  ASSIGN_OR_RETURN(const std::string text, ToText(value));
  return Append(text);
}

Status Evaluator::Append(std::string_view text) {
  if (out_->size() + text.size() > limits_.bytes) return InvalidArgument("the template's output is too long");
  RETURN_IF_ERROR(Spend(static_cast<int64_t>(text.size()) / kBytesAStep));
  *out_ += text;
  return Status::Ok();
}

Result<std::string> Evaluator::Capture(const StatementList& body, std::shared_ptr<Scope> parent,
                                       std::vector<std::pair<std::string_view, Value>> names) {
  ASSIGN_OR_RETURN(std::shared_ptr<Scope> scope, NewScope(std::move(parent)));
  scope->names = std::move(names);
  const InScope in_scope(this, std::move(scope));
  std::string text;
  std::string* const out = std::exchange(out_, &text);
  const Status status = Execute(body);
  out_ = out;
  RETURN_IF_ERROR(status);
  return text;
}

Status Evaluator::ExecuteIf(const StatementNode& node) {
  for (const auto& [condition, body] : node.branches) {
    ASSIGN_OR_RETURN(const Value holds, Evaluate(*condition));
    if (holds.Truth()) return Execute(body);
  }
  return Execute(node.otherwise);
}

Status Evaluator::ExecuteFor(const StatementNode& node) {
  ASSIGN_OR_RETURN(const Value over, Evaluate(*node.value));
  auto owned = std::make_unique<LoopObject>();
  LoopObject* const loop = owned.get();
  Own(std::move(owned));
  loop->node = &node;
  loop->outer = scope_;
  ASSIGN_OR_RETURN(loop->source, Iterate(over));
  while (true) {
    ASSIGN_OR_RETURN(const bool more, Advance(loop));
    if (!more) break;
    RETURN_IF_ERROR(Spend(1));
    ASSIGN_OR_RETURN(std::shared_ptr<Scope> scope, NewScope(loop->outer));
    const InScope in_scope(this, std::move(scope));
    scope_->Set("loop", Value(loop));
    RETURN_IF_ERROR(Assign(node.target, *loop->current));
    RETURN_IF_ERROR(Execute(node.body));
    const Flow flow = std::exchange(flow_, Flow::kOn);
    if (flow == Flow::kBreak) break;
  }
  if (loop->index >= 0) return Status::Ok();
  ASSIGN_OR_RETURN(std::shared_ptr<Scope> scope, NewScope(scope_));
  const InScope in_scope(this, std::move(scope));
  return Execute(node.otherwise);
}

Status Evaluator::ExecuteCall(const StatementNode& node) {
  auto macro = std::make_unique<MacroObject>();
  macro->signature = &node.signature;
  macro->body = &node.body;
  macro->scope = scope_;
  const Value value(Own(std::move(macro)));
  if (node.kind == StatementKind::kMacro) {
    scope_->Set(node.signature.name, value);
    return Status::Ok();
  }
  ASSIGN_OR_RETURN(const Value written, EvaluateCall(*node.value, value));
  return Write(written);
}

Status Evaluator::ExecuteScope(const StatementNode& node) {
  if (node.kind == StatementKind::kScope) {
    ASSIGN_OR_RETURN(std::shared_ptr<Scope> scope, NewScope(scope_));
    std::vector<Value> values;
    for (const auto& [target, expression] : node.assignments) {
      ASSIGN_OR_RETURN(Value value, Evaluate(*expression));
      values.push_back(std::move(value));
    }
    const InScope in_scope(this, std::move(scope));
    for (size_t i = 0; i < values.size(); ++i) RETURN_IF_ERROR(Assign(node.assignments[i].first, values[i]));
    return Execute(node.body);
  }
  ASSIGN_OR_RETURN(std::string text, Capture(node.body, scope_));
  Value value(std::move(text));
  if (node.value != nullptr) {
    ASSIGN_OR_RETURN(value, ApplyFilter(*node.value, &value));
  }
  return node.kind == StatementKind::kFilter ? Write(value) : Assign(node.target, value);
}

Status Evaluator::Assign(const AssignTarget& target, const Value& value) {
  if (!target.several.empty()) {
    ASSIGN_OR_RETURN(const Value parts, Iterate(value));
    const std::vector<Value>& items = parts.AsSequence()->items;
    if (items.size() != target.several.size()) {
      return InvalidArgument("there are " + std::to_string(items.size()) + " values for " +
                             std::to_string(target.several.size()) + " names");
    }
    for (size_t i = 0; i < items.size(); ++i) RETURN_IF_ERROR(Assign(target.several[i], items[i]));
    return Status::Ok();
  }
  if (target.attribute.empty()) {
    scope_->Set(target.name, value);
    return Status::Ok();
  }
  auto* const space = dynamic_cast<NamespaceObject*>(Lookup(target.name).AsObject());
  if (space == nullptr)
    return InvalidArgument("only attributes of a namespace can be assigned; '" + target.name + "' is none");
  RETURN_IF_ERROR(Spend(static_cast<int64_t>(space->attributes.size()) / 8));
  for (auto& [name, old] : space->attributes) {
    if (name == target.attribute) {
      old = value;
      return Status::Ok();
    }
  }
  space->attributes.emplace_back(target.attribute, value);
  return Status::Ok();
}

}  // namespace ringside::jinja
