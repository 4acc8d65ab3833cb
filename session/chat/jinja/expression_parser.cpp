#include <algorithm>
#include <array>
#include <charconv>

#include "session/chat/jinja/builtins.h"
#include "session/chat/jinja/parser.h"

namespace ringside::jinja {
namespace {

using ExpressionKind = ExpressionNode::Kind;

/// From lowest to highest precedence; all are left-associative.
constexpr std::array<std::array<std::string_view, 4>, 4> kOperators = {{
    {"+", "-"},
    {"~"},
    {"*", "/", "//", "%"},
    {"**"},
}};
constexpr std::array<std::string_view, 6> kComparisons = {"==", "!=", "<", "<=", ">", ">="};

}  // namespace

Parser::NodePtr Parser::Node(ExpressionKind kind, ExpressionPtr first) const {
  auto node = std::make_unique<ExpressionNode>();
  node->kind = kind;
  node->line = Peek().line;
  if (first != nullptr) node->parts.push_back(std::move(first));
  return node;
}

Result<ExpressionPtr> Parser::Finish(NodePtr node) const {
  for (const ExpressionPtr& part : node->parts) {
    if (part != nullptr) node->depth = std::max(node->depth, 1 + part->depth);
  }
  for (const auto& [name, part] : node->keywords) node->depth = std::max(node->depth, 1 + part->depth);
  if (node->depth > kMaxTreeDepth) return TooDeep();
  return ExpressionPtr(std::move(node));
}

Result<ExpressionPtr> Parser::Tuple(bool choices, std::string_view end, bool in_brackets) {
  NodePtr tuple = Node(ExpressionKind::kTuple);
  bool several = false;
  const auto at_end = [&] {
    return AtSign(")") || Peek().kind == Lexeme::Kind::kEndBlock || Peek().kind == Lexeme::Kind::kEndOutput ||
           (!end.empty() && AtName(end));
  };
  while (!at_end()) {
    ASSIGN_OR_RETURN(ExpressionPtr part, Expression(choices));
    tuple->parts.push_back(std::move(part));
    if (!SkipSign(",")) break;
    several = true;
  }
  if (!several) {
    if (!tuple->parts.empty()) return std::move(tuple->parts.front());
    if (!in_brackets) return Unexpected("an expression");
  }
  return Finish(std::move(tuple));
}

Result<ExpressionPtr> Parser::Expression(bool choices) {
  if (++nesting_ > kMaxTreeDepth) return TooDeep();
  Result<ExpressionPtr> expression = choices ? Choice() : Or();
  --nesting_;
  return expression;
}

Result<ExpressionPtr> Parser::Choice() {
  ASSIGN_OR_RETURN(ExpressionPtr value, Or());
  while (SkipName("if")) {
    NodePtr node = Node(ExpressionKind::kChoice);
    ASSIGN_OR_RETURN(ExpressionPtr condition, Or());
    ExpressionPtr other;
    if (SkipName("else")) {
      ASSIGN_OR_RETURN(other, Expression());
    }
    node->parts.push_back(std::move(condition));
    node->parts.push_back(std::move(value));
    node->parts.push_back(std::move(other));
    ASSIGN_OR_RETURN(value, Finish(std::move(node)));
  }
  return value;
}

Result<ExpressionPtr> Parser::Or() { return Joined("or", ExpressionKind::kOr, &Parser::And); }
Result<ExpressionPtr> Parser::And() { return Joined("and", ExpressionKind::kAnd, &Parser::Not); }

Result<ExpressionPtr> Parser::Joined(std::string_view word, ExpressionKind kind,
                                     Result<ExpressionPtr> (Parser::*part)()) {
  ASSIGN_OR_RETURN(ExpressionPtr first, (this->*part)());
  if (!AtName(word)) return first;
  NodePtr node = Node(kind, std::move(first));
  while (SkipName(word)) {
    ASSIGN_OR_RETURN(ExpressionPtr next, (this->*part)());
    node->parts.push_back(std::move(next));
  }
  return Finish(std::move(node));
}

Result<ExpressionPtr> Parser::Not() {
  size_t nots = 0;
  while (SkipName("not")) ++nots;
  ASSIGN_OR_RETURN(ExpressionPtr value, Compare());
  for (; nots > 0; --nots) {
    ASSIGN_OR_RETURN(value, Finish(Node(ExpressionKind::kNot, std::move(value))));
  }
  return value;
}

Result<ExpressionPtr> Parser::Compare() {
  ASSIGN_OR_RETURN(ExpressionPtr first, Binary(0));
  NodePtr node = Node(ExpressionKind::kCompare, std::move(first));
  while (true) {
    const bool sign =
        Peek().kind == Lexeme::Kind::kSign && std::ranges::find(kComparisons, Peek().text) != kComparisons.end();
    const bool not_in = AtName("not") && Peek(1).kind == Lexeme::Kind::kName && Peek(1).text == "in";
    if (sign) {
      node->signs.push_back(Next().text);
    } else if (not_in) {
      Next();
      Next();
      node->signs.emplace_back("not in");
    } else if (SkipName("in")) {
      node->signs.emplace_back("in");
    } else {
      break;
    }
    ASSIGN_OR_RETURN(ExpressionPtr part, Binary(0));
    node->parts.push_back(std::move(part));
  }
  if (node->signs.empty()) return std::move(node->parts.front());
  return Finish(std::move(node));
}

Result<ExpressionPtr> Parser::Binary(size_t level) {
  if (level == kOperators.size()) return Unary(true);
  ASSIGN_OR_RETURN(ExpressionPtr left, Binary(level + 1));
  while (Peek().kind == Lexeme::Kind::kSign) {
    const auto& signs = kOperators[level];
    const auto sign = std::ranges::find(signs, std::string_view(Peek().text));
    if (sign == signs.end() || sign->empty()) break;
    NodePtr node = Node(ExpressionKind::kBinary, std::move(left));
    node->text = Next().text;
    ASSIGN_OR_RETURN(ExpressionPtr right, Binary(level + 1));
    node->parts.push_back(std::move(right));
    ASSIGN_OR_RETURN(left, Finish(std::move(node)));
  }
  return left;
}

Result<ExpressionPtr> Parser::Unary(bool filters) {
  ExpressionPtr value;
  if (AtSign("-") || AtSign("+")) {
    if (++nesting_ > kMaxTreeDepth) return TooDeep();
    const ExpressionKind kind = Next().text == "-" ? ExpressionKind::kNegative : ExpressionKind::kPositive;
    ASSIGN_OR_RETURN(value, Unary(false));
    ASSIGN_OR_RETURN(value, Finish(Node(kind, std::move(value))));
    --nesting_;
  } else {
    ASSIGN_OR_RETURN(value, Primary());
  }
  ASSIGN_OR_RETURN(value, Postfix(std::move(value)));
  return filters ? FiltersAndTests(std::move(value)) : std::move(value);
}

Result<ExpressionPtr> Parser::Primary() {
  if (SkipSign("(")) {
    ASSIGN_OR_RETURN(ExpressionPtr value, Tuple(true, "", true));
    if (!SkipSign(")")) return Unexpected("')'");
    return value;
  }
  if (AtSign("[")) return List();
  if (AtSign("{")) return Dict();
  return Literal();
}

Result<ExpressionPtr> Parser::Literal() {
  NodePtr node = Node(ExpressionKind::kConstant);
  const Lexeme& lexeme = Peek();
  const char* const end = lexeme.text.data() + lexeme.text.size();
  if (lexeme.kind == Lexeme::Kind::kText) {
    std::string text;
    while (Peek().kind == Lexeme::Kind::kText) text += Next().text;
    node->constant = std::move(text);
    return Finish(std::move(node));
  }
  if (lexeme.kind == Lexeme::Kind::kInteger) {
    int64_t value = 0;
    if (std::from_chars(lexeme.text.data(), end, value).ec != std::errc()) {
      return SyntaxError(lexeme.line, "a number is too large");
    }
    node->constant = value;
  } else if (lexeme.kind == Lexeme::Kind::kFloat) {
    double value = 0;
    if (std::from_chars(lexeme.text.data(), end, value).ec != std::errc()) {
      return SyntaxError(lexeme.line, "a number is too large");
    }
    node->constant = value;
  } else if (AtName("true") || AtName("True") || AtName("false") || AtName("False")) {
    node->constant = lexeme.text == "true" || lexeme.text == "True";
  } else if (AtName("none") || AtName("None")) {
    node->constant = Value::None{};
  } else {
    node->kind = ExpressionKind::kName;
    ASSIGN_OR_RETURN(node->text, Name());
    static constexpr std::array<std::string_view, 4> kMissing = {"cycler", "joiner", "lipsum", "self"};
    const bool of_macro = macros_ > 0 && (node->text == "varargs" || node->text == "kwargs");
    if (of_macro || std::ranges::find(kMissing, node->text) != kMissing.end()) {
      return SyntaxError(node->line, "'" + node->text + "' is not supported in chat templates here");
    }
    return Finish(std::move(node));
  }
  Next();
  return Finish(std::move(node));
}

Result<ExpressionPtr> Parser::List() {
  NodePtr node = Node(ExpressionKind::kList);
  Next();
  while (!SkipSign("]")) {
    if (!node->parts.empty() && !SkipSign(",")) return Unexpected("','");
    if (SkipSign("]")) break;
    ASSIGN_OR_RETURN(ExpressionPtr part, Expression());
    node->parts.push_back(std::move(part));
  }
  return Finish(std::move(node));
}

Result<ExpressionPtr> Parser::Dict() {
  NodePtr node = Node(ExpressionKind::kDict);
  Next();
  while (!SkipSign("}")) {
    if (!node->parts.empty() && !SkipSign(",")) return Unexpected("','");
    if (SkipSign("}")) break;
    ASSIGN_OR_RETURN(ExpressionPtr key, Expression());
    if (!SkipSign(":")) return Unexpected("':'");
    ASSIGN_OR_RETURN(ExpressionPtr value, Expression());
    node->parts.push_back(std::move(key));
    node->parts.push_back(std::move(value));
  }
  return Finish(std::move(node));
}

Result<ExpressionPtr> Parser::Postfix(ExpressionPtr of) {
  while (true) {
    if (AtSign(".")) {
      NodePtr node = Node(ExpressionKind::kAttribute, std::move(of));
      Next();
      if (Peek().kind == Lexeme::Kind::kInteger) {
        ASSIGN_OR_RETURN(ExpressionPtr index, Literal());
        node->kind = ExpressionKind::kItem;
        node->parts.push_back(std::move(index));
      } else if (Peek().kind == Lexeme::Kind::kName) {
        node->text = Next().text;
      } else {
        return Unexpected("an attribute's name");
      }
      ASSIGN_OR_RETURN(of, Finish(std::move(node)));
    } else if (AtSign("[")) {
      ASSIGN_OR_RETURN(of, Subscript(std::move(of)));
    } else if (AtSign("(")) {
      NodePtr node = Node(ExpressionKind::kCall, std::move(of));
      RETURN_IF_ERROR(CallArguments(node.get()));
      ASSIGN_OR_RETURN(of, Finish(std::move(node)));
    } else {
      return of;
    }
  }
}

Result<ExpressionPtr> Parser::Subscript(ExpressionPtr of) {
  NodePtr node = Node(ExpressionKind::kItem, std::move(of));
  Next();
  for (size_t colons = 0; !SkipSign("]");) {
    if (AtSign(":") && colons < 2) {
      Next();
      ++colons;
      node->kind = ExpressionKind::kSlice;
      if (node->parts.size() == colons) node->parts.emplace_back();  // omitted bound
    } else if (node->parts.size() == 1 + colons) {
      ASSIGN_OR_RETURN(ExpressionPtr part, Expression());
      node->parts.push_back(std::move(part));
    } else {
      return Unexpected("']'");
    }
  }
  if (node->kind == ExpressionKind::kSlice) node->parts.resize(4);
  if (node->parts.size() == 1) return SyntaxError(node->line, "a subscript is missing");
  return Finish(std::move(node));
}

Status Parser::CallArguments(ExpressionNode* node) {
  Next();
  for (bool first = true; !SkipSign(")"); first = false) {
    if (!first && !SkipSign(",")) return Unexpected("','");
    if (SkipSign(")")) break;
    if (AtSign("*") || AtSign("**")) {
      return SyntaxError(Peek().line,
                         "'" + Peek().text + "' in front of arguments is not supported in chat templates here");
    }
    const bool keyword =
        Peek().kind == Lexeme::Kind::kName && Peek(1).kind == Lexeme::Kind::kSign && Peek(1).text == "=";
    std::string name;
    if (keyword) {
      name = Next().text;
      Next();
    } else if (!node->keywords.empty()) {
      return SyntaxError(Peek().line, "an argument without a name follows one that has one");
    }
    ASSIGN_OR_RETURN(ExpressionPtr value, Expression());
    if (keyword) {
      node->keywords.emplace_back(std::move(name), std::move(value));
    } else {
      node->parts.push_back(std::move(value));
    }
  }
  return Status::Ok();
}

Result<ExpressionPtr> Parser::FiltersAndTests(ExpressionPtr of) {
  while (true) {
    if (AtSign("|")) {
      ASSIGN_OR_RETURN(of, Filters(std::move(of), false));
    } else if (AtName("is")) {
      ASSIGN_OR_RETURN(of, Test(std::move(of)));
    } else if (AtSign("(")) {
      NodePtr node = Node(ExpressionKind::kCall, std::move(of));
      RETURN_IF_ERROR(CallArguments(node.get()));
      ASSIGN_OR_RETURN(of, Finish(std::move(node)));
    } else {
      return of;
    }
  }
}

/// "| name(...) | name(...) ..."; the first bar may already have been read.
Result<ExpressionPtr> Parser::Filters(ExpressionPtr of, bool first_is_here) {
  while (std::exchange(first_is_here, false) || SkipSign("|")) {
    NodePtr node = Node(ExpressionKind::kFilter);
    node->parts.push_back(std::move(of));
    ASSIGN_OR_RETURN(node->text, DottedName());
    node->builtin = FindFilter(node->text);
    if (node->builtin == nullptr && conditions_ == 0) {
      return SyntaxError(node->line, "there is no filter '" + node->text + "' here");
    }
    if (AtSign("(")) RETURN_IF_ERROR(CallArguments(node.get()));
    ASSIGN_OR_RETURN(of, Finish(std::move(node)));
  }
  return of;
}

Result<ExpressionPtr> Parser::Test(ExpressionPtr of) {
  NodePtr node = Node(ExpressionKind::kTest, std::move(of));
  Next();
  const bool negated = SkipName("not");
  ASSIGN_OR_RETURN(node->text, DottedName());
  node->builtin = FindTest(node->text);
  if (node->builtin == nullptr && conditions_ == 0) {
    return SyntaxError(node->line, "there is no test '" + node->text + "' here");
  }
  using LexemeKind = Lexeme::Kind;
  const LexemeKind kind = Peek().kind;
  const bool word = AtName("else") || AtName("or") || AtName("and") || AtName("if") || AtName("in") || AtName("not");
  if (AtSign("(")) {
    RETURN_IF_ERROR(CallArguments(node.get()));
  } else if (AtName("is")) {
    return SyntaxError(node->line, "tests do not follow one another");
  } else if (AtSign("[") || AtSign("{") || kind == LexemeKind::kText || kind == LexemeKind::kInteger ||
             kind == LexemeKind::kFloat || (kind == LexemeKind::kName && !word)) {
    ASSIGN_OR_RETURN(ExpressionPtr argument, Primary());
    ASSIGN_OR_RETURN(argument, Postfix(std::move(argument)));
    node->parts.push_back(std::move(argument));
  }
  ASSIGN_OR_RETURN(ExpressionPtr test, Finish(std::move(node)));
  return negated ? Finish(Node(ExpressionKind::kNot, std::move(test))) : std::move(test);
}

Result<std::string> Parser::DottedName() {
  if (Peek().kind != Lexeme::Kind::kName) return Unexpected("a name");
  std::string name = Next().text;
  while (SkipSign(".")) {
    if (Peek().kind != Lexeme::Kind::kName) return Unexpected("a name");
    name += "." + Next().text;
  }
  return name;
}

}  // namespace ringside::jinja
