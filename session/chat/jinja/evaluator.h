// Executes a parsed template once.
// THREAD: one.
#pragma once

#include <ctime>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "session/chat/jinja/builtins.h"
#include "session/chat/jinja/syntax.h"
#include "session/chat/jinja/template.h"
#include "session/chat/jinja/value.h"

namespace ringside::jinja {

/// Names of a block, which shadow those of enclosing blocks. Keys belong to the tree or the caller.
struct Scope {
  explicit Scope(std::shared_ptr<Scope> around)
      : parent(std::move(around)), depth(parent == nullptr ? 1 : parent->depth + 1) {}

  const std::shared_ptr<Scope> parent;
  const int depth;
  std::vector<std::pair<std::string_view, Value>> names;

  void Set(std::string_view name, Value value);
};

struct NamespaceObject : Object {
  std::vector<std::pair<std::string, Value>> attributes;
};

struct MacroObject : Object {
  const MacroSignature* signature = nullptr;
  const StatementList* body = nullptr;
  std::shared_ptr<Scope> scope;
};

/// A running for loop; `loop` in its body.
struct LoopObject : Object {
  const StatementNode* node = nullptr;
  std::shared_ptr<Scope> outer;
  Value source;             // a sequence
  size_t next = 0;          // index into `source`
  std::deque<Value> ready;  // looked at before the body runs
  std::optional<Value> previous, current, changed;
  int64_t index = -1;
};

class Evaluator {
 public:
  Evaluator(const std::tm& now, const RenderLimits& limits) : now_(now), limits_(limits), steps_left_(limits.steps) {}

  Result<std::string> Run(const StatementList& statements, const Variables& variables);

  // For builtins.
  const std::tm& now() const { return now_; }
  /// ERRORS: kInvalidArgument above the limit of steps.
  Status Spend(int64_t steps);
  /// To be called before a text of this size is created.
  Status SpendBytes(size_t bytes);
  /// of[key] and of.key.
  Result<Value> Item(const Value& of, const Value& key);
  Result<Value> Attribute(const Value& of, std::string_view name);
  /// The sequence over which a loop would iterate.
  Result<Value> Iterate(const Value& value);
  Result<Value> CallBuiltin(const Builtin& builtin, const Value& self, Arguments arguments);
  Result<bool> Contains(const Value& container, const Value& value);
  Object* Own(std::unique_ptr<Object> object);

 private:
  static constexpr int kMaxNested = 400;  // nesting of Evaluate and Execute

  enum class Flow { kOn, kBreak, kContinue };
  class InScope;  // RAII guard of a scope

  Status Execute(const StatementList& statements);
  Status Execute(const StatementNode& node);
  Status ExecuteIf(const StatementNode& node);
  Status ExecuteFor(const StatementNode& node);
  Status ExecuteCall(const StatementNode& node);
  Status ExecuteScope(const StatementNode& node);
  /// Output of the body in a new scope within `parent`, in which `names` are set.
  Result<std::string> Capture(const StatementList& body, std::shared_ptr<Scope> parent,
                              std::vector<std::pair<std::string_view, Value>> names = {});
  /// ERRORS: kInvalidArgument if scopes are nested too deeply.
  Result<std::shared_ptr<Scope>> NewScope(std::shared_ptr<Scope> parent) const;
  Status Assign(const AssignTarget& target, const Value& value);
  Status Write(const Value& value);
  Status Append(std::string_view text);

  Result<bool> Advance(LoopObject* loop);
  Status LookAhead(LoopObject* loop, size_t count);
  Result<Value> LoopAttribute(LoopObject* loop, std::string_view name);

  Result<Value> Evaluate(const ExpressionNode& node);
  Result<Value> EvaluateHere(const ExpressionNode& node);
  Result<Value> EvaluateParts(const ExpressionNode& node);
  Result<Value> EvaluateSlice(const ExpressionNode& node);
  Result<Value> EvaluateBinary(const ExpressionNode& node);
  Result<Value> EvaluateCompare(const ExpressionNode& node);
  Result<Value> EvaluateSign(const ExpressionNode& node);
  Result<Value> EvaluateCall(const ExpressionNode& node, Value caller);
  /// A call of a method that changes a list or a dict (mutators.h); nothing for another call.
  Result<std::optional<Value>> CallMutator(const ExpressionNode& node);
  /// Gives a name, an attribute or an item another value.
  Status Store(const ExpressionNode& place, Value value);
  Result<Value> ApplyFilter(const ExpressionNode& node, const Value* block);
  Result<Value> ApplyTest(const ExpressionNode& node);
  Result<Arguments> EvaluateArguments(const ExpressionNode& node);
  Result<Value> Call(const Value& callee, Arguments arguments, Value caller);
  Result<Value> CallMacro(const MacroObject& macro, Arguments arguments, Value caller);
  Value Lookup(std::string_view name) const;

  const std::tm now_;
  const RenderLimits limits_;
  int64_t steps_left_;
  int nested_ = 0;
  Flow flow_ = Flow::kOn;
  std::string* out_ = nullptr;
  std::shared_ptr<Scope> scope_;
  std::vector<std::unique_ptr<Object>> objects_;
};

/// Binary operators, by sign.
Result<Value> Compute(Evaluator& evaluator, std::string_view sign, const Value& a, const Value& b);
Result<Value> SliceOf(Evaluator& evaluator, const Value& of, const Value& begin, const Value& end, const Value& step);

/// str % arguments; `all` arguments must be used.
Result<std::string> FormatPercent(std::string_view format, const std::vector<Value>& arguments, bool all);

}  // namespace ringside::jinja
