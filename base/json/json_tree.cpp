#include "base/json/json_tree.h"

#include <nlohmann/json.hpp>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

namespace ringside {
namespace {

template <class Json>
class TreeBuilder final : public JsonHandler {
 public:
  bool Null() override { return Put(nullptr); }
  bool Boolean(bool value) override { return Put(value); }
  bool Negative(int64_t value) override { return Put(value); }
  bool Unsigned(uint64_t value) override { return Put(value); }
  bool Number(double value, const std::string&) override { return Put(value); }
  bool String(std::string& value) override { return Put(std::move(value)); }
  bool OpenObject() override { return Open(Json::object()); }
  bool OpenArray() override { return Open(Json::array()); }
  bool CloseObject() override { return Close(); }
  bool CloseArray() override { return Close(); }
  bool Name(std::string& name) override {
    auto& [object, names] = open_.back();
    if constexpr (std::is_same_v<Json, nlohmann::ordered_json>) {
      // The ordered map would search all its members for the name.
      auto& members = object->template get_ref<typename Json::object_t&>();
      const auto [at, fresh] = names.emplace(name, members.size());
      if (fresh) members.emplace_back(std::move(name), nullptr);
      member_ = &(members.begin() + static_cast<ptrdiff_t>(at->second))->second;
    } else {
      member_ = &(*object)[std::move(name)];
    }
    return true;
  }

  Json root;

 private:
  struct Level {
    Json* value;
    std::unordered_map<std::string, size_t> names;  // members of an ordered object
  };

  Json* Add(Json value) {
    if (open_.empty()) return &(root = std::move(value));
    Json& parent = *open_.back().value;
    if (parent.is_object()) return &(*member_ = std::move(value));
    parent.push_back(std::move(value));
    return &parent.back();
  }
  bool Put(Json value) {
    Add(std::move(value));
    return true;
  }
  bool Open(Json empty) {
    open_.push_back({Add(std::move(empty)), {}});
    return true;
  }
  bool Close() {
    open_.pop_back();
    return true;
  }

  std::vector<Level> open_;  // pointers into parents stay valid: only the innermost container grows
  Json* member_ = nullptr;   // value of the last name
};

template <class Json>
Json Parse(std::string_view text, const JsonLimits& limits, JsonFault* fault) {
  TreeBuilder<Json> builder;
  JsonFault found = ReadJson(text, limits, builder);
  Json tree = found.ok() ? std::move(builder.root) : Json(Json::value_t::discarded);
  if (fault != nullptr) *fault = std::move(found);
  return tree;
}

}  // namespace

nlohmann::json ParseJsonTree(std::string_view text, const JsonLimits& limits, JsonFault* fault) {
  return Parse<nlohmann::json>(text, limits, fault);
}

nlohmann::ordered_json ParseOrderedJsonTree(std::string_view text, const JsonLimits& limits, JsonFault* fault) {
  return Parse<nlohmann::ordered_json>(text, limits, fault);
}

}  // namespace ringside
