// Statements; expressions are in expression_parser.cpp.
#include "session/chat/jinja/parser.h"

#include <algorithm>
#include <array>

namespace ringside::jinja {
namespace {

using StatementKind = StatementNode::Kind;

constexpr std::array<std::string_view, 9> kMissing = {"include",    "import", "from", "extends", "block",
                                                      "autoescape", "trans",  "do",   "print"};

}  // namespace

Result<StatementList> Parser::ParseTemplate() {
  ASSIGN_OR_RETURN(StatementList statements, Statements({}));
  return statements;
}

bool Parser::AtBlock(std::initializer_list<std::string_view> names) const {
  return Peek().kind == Lexeme::Kind::kBeginBlock && Peek(1).kind == Lexeme::Kind::kName &&
         std::ranges::find(names, Peek(1).text) != names.end();
}

/// Parses up to a block with one of the names, which is left unread; without names, to the end.
Result<StatementList> Parser::Statements(std::initializer_list<std::string_view> ends) {
  StatementList list;
  const int line = Peek().line;
  while (Peek().kind != Lexeme::Kind::kEnd) {
    if (AtBlock(ends)) {
      Next();
      return list;
    }
    ASSIGN_OR_RETURN(StatementPtr statement, Statement());
    depths_.back() = std::max(depths_.back(), statement->depth);
    list.push_back(std::move(statement));
  }
  if (ends.size() > 0) return SyntaxError(line, "there is no '" + std::string(*(ends.end() - 1)) + "'");
  return list;
}

Result<Parser::StatementPtr> Parser::Statement() {
  auto node = std::make_unique<StatementNode>();
  node->line = Peek().line;
  if (++nesting_ > kMaxTreeDepth) return TooDeep();
  depths_.push_back(0);
  if (Peek().kind == Lexeme::Kind::kData) {
    node->text = Next().text;
  } else if (Peek().kind == Lexeme::Kind::kBeginOutput) {
    Next();
    node->kind = StatementKind::kOutput;
    ASSIGN_OR_RETURN(node->value, Tuple(true));
    RETURN_IF_ERROR(Expect(Lexeme::Kind::kEndOutput, "'}}'"));
  } else {
    Next();
    RETURN_IF_ERROR(Block(node.get()));
    RETURN_IF_ERROR(Expect(Lexeme::Kind::kEndBlock, "'%}'"));
  }
  --nesting_;
  node->depth = 1 + depths_.back();
  depths_.pop_back();
  for (const ExpressionPtr* part : {&node->value, &node->condition}) {
    if (*part != nullptr) node->depth = std::max(node->depth, 1 + (*part)->depth);
  }
  for (const auto& [condition, body] : node->branches) node->depth = std::max(node->depth, 1 + condition->depth);
  if (node->depth > kMaxTreeDepth) return TooDeep();
  return StatementPtr(std::move(node));
}

Status Parser::Block(StatementNode* node) {
  if (Peek().kind != Lexeme::Kind::kName) return Unexpected("a statement's name");
  const std::string name = Next().text;
  if (name == "for") return For(node);
  if (name == "if") return If(node);
  if (name == "set") return Set(node);
  if (name == "macro") return MacroBlock(node);
  if (name == "call") return CallBlock(node);
  if (name == "with") return With(node);
  if (name == "filter") {
    node->kind = StatementKind::kFilter;
    ASSIGN_OR_RETURN(node->value, Filters(nullptr, true));
    return Body(node, "endfilter");
  }
  if (name == "generation") {
    node->kind = StatementKind::kScope;
    return Body(node, "endgeneration");
  }
  if (name == "break" || name == "continue") {
    if (loops_ == 0) return SyntaxError(node->line, "'" + name + "' outside of a loop");
    node->kind = name == "break" ? StatementKind::kBreak : StatementKind::kContinue;
    return Status::Ok();
  }
  if (std::ranges::find(kMissing, name) != kMissing.end()) {
    return SyntaxError(node->line, "'" + name + "' is not supported in chat templates here");
  }
  return SyntaxError(node->line, "there is no statement '" + name + "' here");
}

/// Parses the rest of a block after its tag, except the end.
Status Parser::Body(StatementNode* node, std::string_view end) {
  RETURN_IF_ERROR(Expect(Lexeme::Kind::kEndBlock, "'%}'"));
  ASSIGN_OR_RETURN(node->body, Statements({end}));
  Next();
  return Status::Ok();
}

Status Parser::For(StatementNode* node) {
  node->kind = StatementKind::kFor;
  ASSIGN_OR_RETURN(node->target, Target(false));
  if (!SkipName("in")) return Unexpected("'in'");
  ASSIGN_OR_RETURN(node->value, Tuple(false, "recursive"));
  if (SkipName("if")) {
    ASSIGN_OR_RETURN(node->condition, Expression());
  }
  if (SkipName("recursive")) return SyntaxError(node->line, "a recursive loop is not supported in chat templates here");
  RETURN_IF_ERROR(Expect(Lexeme::Kind::kEndBlock, "'%}'"));
  ++loops_;
  ASSIGN_OR_RETURN(node->body, Statements({"else", "endfor"}));
  --loops_;
  if (Next().text == "endfor") return Status::Ok();
  RETURN_IF_ERROR(Expect(Lexeme::Kind::kEndBlock, "'%}'"));
  ASSIGN_OR_RETURN(node->otherwise, Statements({"endfor"}));
  Next();
  return Status::Ok();
}

Status Parser::If(StatementNode* node) {
  ++conditions_;
  const Status status = IfBranches(node);
  --conditions_;
  return status;
}

Status Parser::IfBranches(StatementNode* node) {
  node->kind = StatementKind::kIf;
  std::string next;
  do {
    ASSIGN_OR_RETURN(ExpressionPtr condition, Tuple(false));
    RETURN_IF_ERROR(Expect(Lexeme::Kind::kEndBlock, "'%}'"));
    ASSIGN_OR_RETURN(StatementList body, Statements({"elif", "else", "endif"}));
    node->branches.emplace_back(std::move(condition), std::move(body));
    next = Next().text;
  } while (next == "elif");
  if (next == "endif") return Status::Ok();
  RETURN_IF_ERROR(Expect(Lexeme::Kind::kEndBlock, "'%}'"));
  ASSIGN_OR_RETURN(node->otherwise, Statements({"endif"}));
  Next();
  return Status::Ok();
}

Status Parser::Set(StatementNode* node) {
  ASSIGN_OR_RETURN(node->target, Target(true));
  if (SkipSign("=")) {
    node->kind = StatementKind::kSet;
    ASSIGN_OR_RETURN(node->value, Tuple(true));
    return Status::Ok();
  }
  node->kind = StatementKind::kSetBlock;
  if (AtSign("|")) {
    ASSIGN_OR_RETURN(node->value, Filters(nullptr, false));
  }
  return Body(node, "endset");
}

Status Parser::MacroBlock(StatementNode* node) {
  node->kind = StatementKind::kMacro;
  ASSIGN_OR_RETURN(node->signature.name, Name());
  RETURN_IF_ERROR(Signature(&node->signature));
  return MacroBody(node, "endmacro");
}

Status Parser::CallBlock(StatementNode* node) {
  node->kind = StatementKind::kCall;
  node->signature.name = "caller";
  if (AtSign("(")) RETURN_IF_ERROR(Signature(&node->signature));
  ASSIGN_OR_RETURN(node->value, Expression());
  if (node->value->kind != ExpressionNode::Kind::kCall) return SyntaxError(node->line, "'call' needs a call");
  return MacroBody(node, "endcall");
}

/// A macro's body cannot break out of it, and its arguments follow its signature.
Status Parser::MacroBody(StatementNode* node, std::string_view end) {
  const int loops = std::exchange(loops_, 0);
  ++macros_;
  RETURN_IF_ERROR(Body(node, end));
  --macros_;
  loops_ = loops;
  return Status::Ok();
}

Status Parser::Signature(MacroSignature* signature) {
  if (!SkipSign("(")) return Unexpected("'('");
  while (!SkipSign(")")) {
    if (!signature->parameters.empty() && !SkipSign(",")) return Unexpected("','");
    ASSIGN_OR_RETURN(std::string name, Name());
    signature->parameters.push_back(std::move(name));
    if (SkipSign("=")) {
      ASSIGN_OR_RETURN(ExpressionPtr value, Expression());
      signature->defaults.push_back(std::move(value));
    } else if (!signature->defaults.empty()) {
      return SyntaxError(Peek().line, "a parameter without a default follows one that has one");
    }
  }
  return Status::Ok();
}

Status Parser::With(StatementNode* node) {
  node->kind = StatementKind::kScope;
  while (Peek().kind != Lexeme::Kind::kEndBlock) {
    if (!node->assignments.empty() && !SkipSign(",")) return Unexpected("','");
    ASSIGN_OR_RETURN(AssignTarget target, Target(false));
    if (!SkipSign("=")) return Unexpected("'='");
    ASSIGN_OR_RETURN(ExpressionPtr value, Expression());
    node->assignments.emplace_back(std::move(target), std::move(value));
  }
  return Body(node, "endwith");
}

Result<AssignTarget> Parser::Target(bool attributes) {
  std::vector<AssignTarget> several;
  bool tuple = false;
  while (true) {
    AssignTarget one;
    if (SkipSign("(")) {
      if (++nesting_ > kMaxTreeDepth) return TooDeep();
      ASSIGN_OR_RETURN(one, Target(attributes));
      --nesting_;
      if (!SkipSign(")")) return Unexpected("')'");
    } else {
      ASSIGN_OR_RETURN(one.name, Name());
      if (attributes && SkipSign(".")) {
        ASSIGN_OR_RETURN(one.attribute, Name());
      }
    }
    several.push_back(std::move(one));
    if (!SkipSign(",")) break;
    tuple = true;
    if (AtSign(")") || AtSign("=") || (Peek().kind == Lexeme::Kind::kName && Peek().text == "in")) break;
  }
  if (!tuple) return std::move(several.front());
  AssignTarget target;
  target.several = std::move(several);
  return target;
}

Result<std::string> Parser::Name() {
  static constexpr std::array<std::string_view, 6> kConstants = {"true", "false", "none", "True", "False", "None"};
  static constexpr std::array<std::string_view, 7> kWords = {"and", "or", "not", "in", "is", "if", "else"};
  const std::string& name = Peek().text;
  if (Peek().kind != Lexeme::Kind::kName || std::ranges::find(kConstants, name) != kConstants.end() ||
      std::ranges::find(kWords, name) != kWords.end()) {
    return Unexpected("a name");
  }
  return Next().text;
}

const Lexeme& Parser::Peek(size_t ahead) const { return lexemes_[std::min(at_ + ahead, lexemes_.size() - 1)]; }
const Lexeme& Parser::Next() {
  const Lexeme& lexeme = Peek();
  at_ = std::min(at_ + 1, lexemes_.size() - 1);
  return lexeme;
}

bool Parser::AtSign(std::string_view sign) const { return Peek().kind == Lexeme::Kind::kSign && Peek().text == sign; }
bool Parser::SkipSign(std::string_view sign) {
  if (!AtSign(sign)) return false;
  Next();
  return true;
}
bool Parser::AtName(std::string_view name) const { return Peek().kind == Lexeme::Kind::kName && Peek().text == name; }
bool Parser::SkipName(std::string_view name) {
  if (!AtName(name)) return false;
  Next();
  return true;
}

Status Parser::Expect(Lexeme::Kind kind, const char* what) {
  if (Peek().kind != kind) return Unexpected(what);
  Next();
  return Status::Ok();
}

Status Parser::Unexpected(const std::string& wanted) const {
  const Lexeme& lexeme = Peek();
  std::string found = "'" + lexeme.text + "'";
  if (lexeme.kind == Lexeme::Kind::kEndBlock) found = "'%}'";
  if (lexeme.kind == Lexeme::Kind::kEndOutput) found = "'}}'";
  if (lexeme.kind == Lexeme::Kind::kEnd) found = "the end";
  return SyntaxError(lexeme.line, wanted + " was expected, and " + found + " is there");
}

Status Parser::TooDeep() const {
  return SyntaxError(Peek().line, "nested more than " + std::to_string(kMaxTreeDepth) + " times");
}

Result<StatementList> ParseSource(std::string_view source) {
  ASSIGN_OR_RETURN(std::vector<Lexeme> lexemes, ReadLexemes(source));
  return Parser(std::move(lexemes)).ParseTemplate();
}

}  // namespace ringside::jinja
