// Syntax tree of a template. Immutable after parsing, at most kMaxTreeDepth deep.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "session/chat/jinja/value.h"

namespace ringside::jinja {

inline constexpr int kMaxTreeDepth = 100;

struct ExpressionNode;
using ExpressionPtr = std::unique_ptr<const ExpressionNode>;

struct ExpressionNode {
  enum class Kind {
    kConstant,   // constant
    kName,       // text
    kList,       // parts
    kTuple,      // parts
    kDict,       // parts: key, value, key, value, ...
    kAttribute,  // parts[0].text
    kItem,       // parts[0][parts[1]]
    kSlice,      // parts[0][parts[1]:parts[2]:parts[3]]; the last three may be null
    kCall,       // parts[0](the other parts, keywords)
    kFilter,     // parts[0] | builtin(the other parts, keywords); parts[0] is null for a filter block
    kTest,       // parts[0] is builtin(the other parts, keywords)
    kNot,
    kNegative,
    kPositive,
    kBinary,   // parts[0] text parts[1], text is "+", "-", "*", "/", "//", "%", "**" or "~"
    kCompare,  // parts[0] signs[0] parts[1] signs[1] parts[2] ...
    kAnd,      // parts
    kOr,       // parts
    kChoice,   // parts[1] if parts[0] else parts[2], which may be null
  };
  Kind kind = Kind::kConstant;
  int line = 1;
  int depth = 1;
  std::string text;
  Value constant;
  const Builtin* builtin = nullptr;
  std::vector<ExpressionPtr> parts;
  std::vector<std::pair<std::string, ExpressionPtr>> keywords;
  std::vector<std::string> signs;  // "==", ..., "in", "not in"
};

/// Target of an assignment: a name, a namespace's attribute, or several of them.
struct AssignTarget {
  std::string name, attribute;        // attribute "" = the name itself
  std::vector<AssignTarget> several;  // no name then
};

struct StatementNode;
using StatementList = std::vector<std::unique_ptr<const StatementNode>>;

struct MacroSignature {
  std::string name;
  std::vector<std::string> parameters;
  std::vector<ExpressionPtr> defaults;  // of the last parameters
};

struct StatementNode {
  enum class Kind {
    kData,      // text
    kOutput,    // value
    kFor,       // target in value if condition: body; otherwise if there are no items
    kIf,        // branches; otherwise
    kSet,       // target = value
    kSetBlock,  // target = output of body, through the filters in value, if any
    kMacro,     // signature, body
    kCall,      // value is a call whose caller() is signature, body
    kFilter,    // value: filters applied to the output of body
    kScope,     // assignments, then body, in a new scope
    kBreak,
    kContinue,
  };
  Kind kind = Kind::kData;
  int line = 1;
  int depth = 1;
  std::string text;
  ExpressionPtr value, condition;
  AssignTarget target;
  std::vector<std::pair<ExpressionPtr, StatementList>> branches;
  std::vector<std::pair<AssignTarget, ExpressionPtr>> assignments;
  MacroSignature signature;
  StatementList body, otherwise;
};

/// Parses a source.
/// ERRORS: kInvalidArgument, with the line and the fault, for invalid source and for unsupported statements: include,
/// import, extends, block, ...
Result<StatementList> ParseSource(std::string_view source);

}  // namespace ringside::jinja
