// Recursive-descent parser with the precedences of Jinja's grammar.
#pragma once

#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "session/chat/jinja/lexer.h"
#include "session/chat/jinja/syntax.h"

namespace ringside::jinja {

class Parser {
 public:
  explicit Parser(std::vector<Lexeme> lexemes) : lexemes_(std::move(lexemes)) {}
  Result<StatementList> ParseTemplate();

 private:
  using StatementPtr = std::unique_ptr<const StatementNode>;
  using NodePtr = std::unique_ptr<ExpressionNode>;

  bool AtBlock(std::initializer_list<std::string_view> names) const;
  Result<StatementList> Statements(std::initializer_list<std::string_view> ends);
  Result<StatementPtr> Statement();
  Status Block(StatementNode* node);
  Status Body(StatementNode* node, std::string_view end);
  Status For(StatementNode* node);
  Status If(StatementNode* node);
  Status IfBranches(StatementNode* node);
  Status Set(StatementNode* node);
  Status MacroBlock(StatementNode* node);
  Status CallBlock(StatementNode* node);
  Status MacroBody(StatementNode* node, std::string_view end);
  Status Signature(MacroSignature* signature);
  Status With(StatementNode* node);
  Result<AssignTarget> Target(bool attributes);

  /// An expression, or several separated by commas. `choices`: "x if y" is allowed. It may end at the word `end`.
  Result<ExpressionPtr> Tuple(bool choices, std::string_view end = "", bool in_brackets = false);
  Result<ExpressionPtr> Expression(bool choices = true);
  Result<ExpressionPtr> Choice();
  Result<ExpressionPtr> Or();
  Result<ExpressionPtr> And();
  /// One operand, or several joined by the word.
  Result<ExpressionPtr> Joined(std::string_view word, ExpressionNode::Kind kind,
                               Result<ExpressionPtr> (Parser::*part)());
  Result<ExpressionPtr> Not();
  Result<ExpressionPtr> Compare();
  Result<ExpressionPtr> Binary(size_t level);
  Result<ExpressionPtr> Unary(bool filters);
  Result<ExpressionPtr> Primary();
  Result<ExpressionPtr> Literal();
  Result<ExpressionPtr> List();
  Result<ExpressionPtr> Dict();
  Result<ExpressionPtr> Postfix(ExpressionPtr of);
  Result<ExpressionPtr> Subscript(ExpressionPtr of);
  Result<ExpressionPtr> FiltersAndTests(ExpressionPtr of);
  Result<ExpressionPtr> Filters(ExpressionPtr of, bool first_is_here);
  Result<ExpressionPtr> Test(ExpressionPtr of);
  Status CallArguments(ExpressionNode* node);
  Result<std::string> DottedName();

  NodePtr Node(ExpressionNode::Kind kind, ExpressionPtr first = nullptr) const;
  Result<ExpressionPtr> Finish(NodePtr node) const;

  Result<std::string> Name();
  const Lexeme& Peek(size_t ahead = 0) const;
  const Lexeme& Next();
  bool AtSign(std::string_view sign) const;
  bool SkipSign(std::string_view sign);
  bool AtName(std::string_view name) const;
  bool SkipName(std::string_view name);
  Status Expect(Lexeme::Kind kind, const char* what);
  Status Unexpected(const std::string& wanted) const;
  Status TooDeep() const;

  const std::vector<Lexeme> lexemes_;
  size_t at_ = 0;
  int nesting_ = 0, loops_ = 0, macros_ = 0;
  // enclosing {% if %}: inside one, an unknown filter or test is an error only when it runs, as in jinja2
  int conditions_ = 0;
  std::vector<int> depths_ = {0};  // of parsed nodes, by enclosing statement
};

}  // namespace ringside::jinja
