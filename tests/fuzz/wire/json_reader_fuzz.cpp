// The JSON reader: its trees equal those of the library's own parser, whatever the limits.
#include <nlohmann/json.hpp>

#include "base/json/json_tree.h"
#include "tests/fuzz/fuzz_target.h"

namespace ringside {

std::vector<std::string> Seeds() {
  return {
      R"({"a":[1,-2,3.5e-7,18446744073709551615,36893488147419103232,-0.0],"b":{"a":"\u00e9\ud83d\ude00\n","a":null}})",
      R"([true, false, null, {}, [], "", {"a":{"a":{"a":[[[[]]]]}}}])", std::string(60, '[') + std::string(60, ']'),
      R"({"b":1,"a":2,"b":{"c":3,"c":4}})"};
}

}  // namespace ringside

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ringside;
  using Kind = JsonFault::Kind;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  JsonFault fault;
  const nlohmann::json tree = ParseJsonTree(text, {}, &fault);
  Require(tree.is_discarded() == !fault.ok(), "a fault leaves no tree");
  if (fault.ok() || fault.kind == Kind::kSyntax) {
    const auto reference = nlohmann::json::parse(text, nullptr, false);
    Require(reference.is_discarded() == tree.is_discarded(), "both parsers accept the same texts");
    Require(fault.ok() ? reference.dump() == tree.dump() : !fault.message.empty(), "both trees are equal");
  }
  const nlohmann::ordered_json ordered = ParseOrderedJsonTree(text);
  Require(ordered.is_discarded() == tree.is_discarded(), "order changes no verdict");
  if (fault.ok()) {
    Require(ordered.dump() == nlohmann::ordered_json::parse(text).dump(), "members keep their order");
    Require(ParseJsonTree(tree.dump(), {.unique_names = true}) == tree, "names of a tree are unique");
  }
  JsonFault limited;
  ParseJsonTree(text, {.bytes = 64, .depth = 3, .values = 8, .unique_names = true}, &limited);
  Require(!limited.ok() || fault.ok(), "limits accept no further text");
  Require(limited.message.size() <= 200, "messages are short");
  return 0;
}
