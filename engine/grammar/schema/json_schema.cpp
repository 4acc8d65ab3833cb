#include "engine/grammar/schema/json_schema.h"

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <optional>

#include "base/limits.h"
#include "engine/grammar/byte_automaton.h"
#include "engine/grammar/schema/json_text.h"
#include "engine/grammar/schema/number_range.h"
#include "engine/grammar/schema/scalar_forms.h"
#include "engine/grammar/schema/schema_disjoint.h"
#include "engine/grammar/schema/schema_keywords.h"
#include "engine/grammar/schema/schema_value.h"

namespace ringside {
namespace {

constexpr size_t kMaxShownPathBytes = 512;  // of a schema path in messages

// Every subschema becomes a rule, defined later from a worklist: a schema may refer to itself, and a chain of
// references must not recurse deeply here.
class SchemaReader {
 public:
  SchemaReader(const SchemaValue& root, std::string param, GrammarSource* source)
      : root_(root),
        param_(std::move(param)),
        source_(*source),
        budget_(source->budget()),
        json_(source),
        scalars_(source, &json_),
        disjointness_(root, source->budget()) {}

  Result<RuleId> Read() { return Read(root_); }
  Result<RuleId> Read(const SchemaValue& schema) {
    const RuleId whole = RuleOf(schema, param_);
    while (!todo_.empty()) {
      const Todo next = std::move(todo_.front());
      todo_.pop_front();
      ASSIGN_OR_RETURN(const ExpressionId body, Body(*next.schema, next.path));
      source_.Define(next.rule, body);
      RETURN_IF_ERROR(CheckBudget(next.path));
    }
    return whole;
  }

 private:
  struct Todo {
    const SchemaValue* schema;
    std::string path;
    RuleId rule;
  };

  RuleId RuleOf(const SchemaValue& schema, const std::string& path) {
    const auto [at, added] = rules_.try_emplace(&schema, 0);
    if (added) {
      // Keep both ends of a long path; otherwise nested schemas would take quadratic memory for names.
      const std::string name =
          path.size() <= kMaxShownPathBytes
              ? path
              : path.substr(0, kMaxShownPathBytes / 2) + "..." + path.substr(path.size() - kMaxShownPathBytes / 2);
      at->second = source_.AddRule(name, /*of_schema=*/true);
      if (budget_.ok()) todo_.push_back({&schema, name, at->second});
    }
    return at->second;
  }
  ExpressionId Sub(const SchemaValue& schema, const std::string& path) { return source_.Rule(RuleOf(schema, path)); }

  Status CheckBudget(const std::string& path) const {
    return budget_.ok() ? Status::Ok() : SchemaError(path, budget_.status());
  }

  ExpressionId Bytes(const char* text) { return source_.Bytes(text); }
  Result<ExpressionId> Body(const SchemaValue& schema, const std::string& path) {
    Result<ExpressionId> body = BodyWithoutNull(schema, path);
    if (!body.ok() || !schema.is_object() || !IsNullable(schema)) return body;
    return source_.Choice({*body, Bytes("null")});
  }

  Result<ExpressionId> BodyWithoutNull(const SchemaValue& schema, const std::string& path) {
    if (schema.kind() == SchemaValue::Kind::kBool) return schema.boolean() ? json_.AnyValue() : source_.Never();
    if (!schema.is_object()) return SchemaError(path, "a schema is an object or a boolean.");
    RETURN_IF_ERROR(CheckKeywords(schema, path, &schema == &root_));
    if (const SchemaValue* reference = schema.Find("$ref")) return Reference(*reference, path + ".$ref");
    if (schema.Find("const") != nullptr || schema.Find("enum") != nullptr) return Listed(schema, path);
    for (const char* keyword : {"anyOf", "oneOf", "allOf"}) {
      if (const SchemaValue* branches = schema.Find(keyword)) return Branches(keyword, *branches, path + "." + keyword);
    }
    ASSIGN_OR_RETURN(const std::set<std::string> types, ReadTypes(schema, path));
    std::vector<ExpressionId> forms;
    for (const std::string& type : types) {
      if (type == "integer" && types.contains("number")) continue;
      ASSIGN_OR_RETURN(const ExpressionId form, OfType(type, schema, path));
      forms.push_back(form);
    }
    return source_.Choice(std::move(forms));
  }

  Result<ExpressionId> Reference(const SchemaValue& reference, const std::string& path) {
    if (!reference.is_string()) return SchemaError(path, "must be a string.");
    const std::string& text = reference.text();
    if (!budget_.Spend(1 + std::ssize(text) / 8)) return SchemaError(path, budget_.status());
    const SchemaValue* target = ResolveReference(root_, text);
    if (target == nullptr) {
      return SchemaError(path, text.starts_with('#') ? "there is no '" + text.substr(0, 256) + "'."
                                                     : "only references to '#...', within this schema, are supported.");
    }
    std::string target_path = param_ + text.substr(std::min(text.find('#'), text.size() - 1) + 1);
    std::ranges::replace(target_path, '/', '.');
    return Sub(*target, target_path);
  }

  Result<ExpressionId> Listed(const SchemaValue& schema, const std::string& path) {
    const SchemaValue *one = schema.Find("const"), *values = schema.Find("enum");
    if (one == nullptr && !values->is_array()) return SchemaError(path + ".enum", "an array is expected.");
    std::optional<std::set<std::string>> types;
    if (schema.Find("type") != nullptr) {
      ASSIGN_OR_RETURN(types, ReadTypes(schema, path));
      const SchemaValue* nullable = schema.Find("nullable");
      if (nullable != nullptr && nullable->is_bool(true)) types->insert("null");
    }
    std::vector<std::string> texts;
    const auto add = [&](const SchemaValue& value) {
      if (!types || HasType(value, *types)) texts.push_back(JsonOf(value));
    };
    if (one != nullptr) add(*one);
    if (one == nullptr) std::ranges::for_each(values->items(), add);
    if (texts.empty()) return SchemaError(path, "none of its values is possible.");
    const std::string at = path + (one != nullptr ? ".const" : ".enum");
    Result<ByteAutomaton> automaton = ByteAutomaton::OfStrings(std::move(texts), budget_);
    if (!automaton.ok()) return SchemaError(at, automaton.status());
    return source_.Automaton(std::move(*automaton), at);
  }

  static bool HasType(const SchemaValue& value, const std::set<std::string>& types) {
    switch (value.kind()) {
      case SchemaValue::Kind::kNull:
        return types.contains("null");
      case SchemaValue::Kind::kBool:
        return types.contains("boolean");
      case SchemaValue::Kind::kNumber: {
        const auto decimal = Decimal::Parse(value.text());
        return types.contains("number") || (types.contains("integer") && decimal.ok() && decimal->fraction.empty());
      }
      case SchemaValue::Kind::kString:
        return types.contains("string");
      case SchemaValue::Kind::kArray:
        return types.contains("array");
      case SchemaValue::Kind::kObject:
        break;
    }
    return types.contains("object");
  }

  Result<ExpressionId> Branches(const std::string& keyword, const SchemaValue& branches, const std::string& path) {
    if (!branches.is_array() || branches.items().empty()) return SchemaError(path, "a list of schemas is expected.");
    const std::vector<SchemaValue>& items = branches.items();
    if (keyword == "allOf" && items.size() > 1) {
      return InvalidArgument("Invalid schema: '" + path + "' of more than one schema is not supported.", path,
                             "unsupported_value");
    }
    if (keyword == "oneOf") {
      const auto overlap = disjointness_.FindOverlap(items);
      RETURN_IF_ERROR(CheckBudget(path));
      if (overlap) {
        return InvalidArgument("Invalid schema: '" + path + "': its schemas " + std::to_string(overlap->first) +
                                   " and " + std::to_string(overlap->second) +
                                   " may both match one value; use 'anyOf'.",
                               path, "unsupported_value");
      }
    }
    std::vector<ExpressionId> forms;
    for (size_t i = 0; i < items.size(); ++i) forms.push_back(Sub(items[i], path + "[" + std::to_string(i) + "]"));
    return source_.Choice(std::move(forms));
  }

  Result<ExpressionId> OfType(const std::string& type, const SchemaValue& schema, const std::string& path) {
    if (type == "null") return Bytes("null");
    if (type == "boolean") return source_.Choice({Bytes("true"), Bytes("false")});
    if (type == "string") return scalars_.String(schema, path);
    if (type == "array") return Array(schema, path);
    if (type == "object") return Object(schema, path);
    return scalars_.Number(schema, path, type == "integer");
  }

  // A member or an item. The continuation after the i-th is a separate rule: optional parts give many successors, which
  // share their suffixes.
  struct Part {
    ExpressionId text;
    bool required = false;
  };
  /// The members in order, optional ones possibly left out, then `more`; a comma before each except the first.
  ExpressionId Members(const std::vector<Part>& parts, std::optional<ExpressionId> more, const std::string& name) {
    // rest[i]: the continuation after some part is present, from the i-th member on.
    std::vector<ExpressionId> rest(parts.size() + 1, source_.Empty());
    if (more) rest.back() = source_.Repeat(source_.Sequence({json_.Comma(), *more}), 0, kUnbounded);
    const ExpressionId others = rest.back();
    for (size_t i = parts.size(); i-- > 0;) {
      const ExpressionId part = source_.Sequence({json_.Comma(), parts[i].text});
      const RuleId rule = source_.AddRule(name, /*of_schema=*/true);
      source_.Define(rule, source_.Sequence({parts[i].required ? part : source_.Optional(part), rest[i + 1]}));
      rest[i] = source_.Rule(rule);
    }
    std::vector<ExpressionId> ways;
    bool may_be_empty = true;
    for (size_t i = 0; i < parts.size() && may_be_empty; ++i) {
      ways.push_back(source_.Sequence({parts[i].text, rest[i + 1]}));
      may_be_empty = !parts[i].required;
    }
    if (may_be_empty && more) ways.push_back(source_.Sequence({*more, others}));
    if (may_be_empty) ways.push_back(source_.Empty());
    return source_.Choice(std::move(ways));
  }

  Result<ExpressionId> Array(const SchemaValue& schema, const std::string& path) {
    ASSIGN_OR_RETURN(const std::optional<uint32_t> min, ReadCount(schema, path, "minItems"));
    ASSIGN_OR_RETURN(const std::optional<uint32_t> max, ReadCount(schema, path, "maxItems"));
    const uint32_t least = min.value_or(0), most = max.value_or(kUnbounded);
    if (least > most) return SchemaError(path, "minItems is above maxItems.");
    const SchemaValue *items = schema.Find("items"), *prefix = schema.Find("prefixItems");
    if (items != nullptr && items->is_array()) {
      return SchemaError(path + ".items", "use 'prefixItems' for a list of schemas.");
    }
    if (prefix != nullptr && !prefix->is_array()) return SchemaError(path + ".prefixItems", "a list is expected.");
    std::vector<Part> parts;
    for (size_t i = 0; prefix != nullptr && i < prefix->items().size() && i < most; ++i) {
      parts.push_back({Sub(prefix->items()[i], path + ".prefixItems[" + std::to_string(i) + "]"), i < least});
    }
    // Items are positional: if one is absent, all later ones are.
    const auto fixed = static_cast<uint32_t>(parts.size());
    const ExpressionId item = items == nullptr ? json_.AnyValue() : Sub(*items, path + ".items");
    const uint32_t most_more = most == kUnbounded ? kUnbounded : most - fixed;
    const uint32_t least_more = least > fixed ? least - fixed : 0;
    const ExpressionId comma_item = source_.Sequence({json_.Comma(), item});
    const std::string counted = path + (max ? ".maxItems" : ".minItems");
    ExpressionId rest = source_.Repeat(comma_item, least_more, most_more);
    source_.Name(rest, counted);
    for (size_t i = parts.size(); i-- > 1;) {
      const RuleId rule = source_.AddRule(path, /*of_schema=*/true);
      const ExpressionId on = source_.Sequence({json_.Comma(), parts[i].text, rest});
      source_.Define(rule, parts[i].required ? on : source_.Optional(on));
      rest = source_.Rule(rule);
    }
    ExpressionId inside = source_.Empty();
    if (fixed > 0) {
      inside = source_.Sequence({parts[0].text, rest});
    } else if (most > 0) {
      const ExpressionId more =
          source_.Repeat(comma_item, least > 0 ? least - 1 : 0, most == kUnbounded ? kUnbounded : most - 1);
      source_.Name(more, counted);
      inside = source_.Sequence({item, more});
    }
    if (least == 0) inside = source_.Optional(inside);
    return source_.Sequence({Bytes("["), inside, Bytes("]")});
  }

  Result<ExpressionId> Object(const SchemaValue& schema, const std::string& path) {
    const SchemaValue *properties = schema.Find("properties"), *required = schema.Find("required"),
                      *others = schema.Find("additionalProperties");
    if (properties != nullptr && !properties->is_object()) {
      return SchemaError(path + ".properties", "an object of schemas is expected.");
    }
    std::set<std::string> needed;
    if (required != nullptr) {
      if (!required->is_array()) return SchemaError(path + ".required", "must be a list of property names.");
      for (const SchemaValue& name : required->items()) {
        if (!name.is_string()) return SchemaError(path + ".required", "must be a list of property names.");
        needed.insert(name.text());
      }
    }
    if (properties == nullptr && needed.empty() && others == nullptr) return json_.AnyObject();
    const auto member = [&](const std::string& name, ExpressionId value) {
      return source_.Sequence({source_.Bytes(JsonString(name)), json_.Colon(), value});
    };
    std::vector<Part> parts;
    std::set<std::string> names;
    if (properties != nullptr) {
      for (const auto& [name, value] : properties->members()) {
        if (!names.insert(JsonString(name)).second) {
          return SchemaError(path + ".properties", "it names '" + name.substr(0, 256) + "' twice.");
        }
        const std::string at = path + ".properties." + name.substr(0, 256);
        // A member with the schema `false` must be absent.
        if (value.is_bool(false) && !needed.contains(name)) continue;
        parts.push_back({member(name, Sub(value, at)), needed.contains(name)});
        needed.erase(name);
      }
    }
    const ExpressionId other = others == nullptr ? json_.AnyValue() : Sub(*others, path + ".additionalProperties");
    for (const std::string& name : needed) {  // required without a schema
      names.insert(JsonString(name));
      parts.push_back({member(name, other), true});
    }
    std::optional<ExpressionId> more;
    // Undeclared members are generated only if the schema asks for them: otherwise they are valid, but noise.
    const bool open = others != nullptr ? !others->is_bool(false) : properties == nullptr;
    if (open) {
      const Result<ExpressionId> name = OtherName(names, path + ".additionalProperties");
      if (!name.ok()) return SchemaError(path + ".additionalProperties", name.status());
      more = source_.Sequence({*name, json_.Colon(), other});
    }
    const ExpressionId inside = Members(parts, more, path);
    return source_.Sequence({Bytes("{"), inside, Bytes("}")});
  }

  /// Any string except these (canonical texts).
  Result<ExpressionId> OtherName(const std::set<std::string>& names, const std::string& keyword) {
    if (names.empty()) return json_.AnyString();
    const ExpressionId any = source_.Sequence(
        {Bytes("\""), source_.Repeat(JsonCharacter(CodePointSet::All(), &source_), 0, kUnbounded), Bytes("\"")});
    ASSIGN_OR_RETURN(const ByteAutomaton all, ByteAutomaton::Of(source_, any));
    ASSIGN_OR_RETURN(const ByteAutomaton known, ByteAutomaton::OfStrings({names.begin(), names.end()}, budget_));
    ASSIGN_OR_RETURN(ByteAutomaton rest, ByteAutomaton::Without(all, known, budget_));
    return source_.Automaton(std::move(rest), keyword);
  }

  const SchemaValue& root_;
  const std::string param_;
  GrammarSource& source_;
  GrammarBudget& budget_;
  JsonRules json_;
  ScalarForms scalars_;
  DisjointnessTest disjointness_;
  std::map<const SchemaValue*, RuleId> rules_;
  std::deque<Todo> todo_;
};

}  // namespace

Result<GrammarSource> ReadJsonSchema(std::string_view schema, const std::string& param, GrammarBudget& budget) {
  const Result<SchemaValue> root = SchemaValue::Parse(schema, budget);
  if (!root.ok()) return Status(root.status().code(), root.status().message(), param, "invalid_value");
  GrammarSource source(budget);
  ASSIGN_OR_RETURN(const RuleId whole, SchemaReader(*root, param, &source).Read());
  source.SetStart(whole);
  return source;
}

Result<ExpressionId> AddJsonSchema(const SchemaValue& schema, const std::string& param, GrammarSource* source) {
  ASSIGN_OR_RETURN(const RuleId whole, SchemaReader(schema, param, source).Read());
  return source->Rule(whole);
}

Result<ExpressionId> AddJsonSchemaOf(const SchemaValue& root, const SchemaValue& schema, const std::string& param,
                                     GrammarSource* source) {
  ASSIGN_OR_RETURN(const RuleId whole, SchemaReader(root, param, source).Read(schema));
  return source->Rule(whole);
}

GrammarSource AnyJsonObject(GrammarBudget& budget) {
  GrammarSource source(budget);
  const RuleId start = source.AddRule("answer");
  source.Define(start, AddAnyJsonObject(&source));
  source.SetStart(start);
  return source;
}

ExpressionId AddAnyJsonObject(GrammarSource* source) { return JsonRules(source).AnyObject(); }

}  // namespace ringside
