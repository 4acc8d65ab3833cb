#include "engine/families/huggingface/compressed_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <string_view>

namespace ringside {
namespace {

using GroupKind = CompressedGroup::Kind;

constexpr int64_t kMaxGroup = int64_t{1} << 20;

/// A format of weights: its name, and what the group must state. strategies end in an empty one.
struct Format {
  std::string_view name, type;
  int64_t bits;
  GroupKind kind;
  std::string_view strategies[4];
};
constexpr Format kFormats[] = {
    {"pack-quantized", "int", 4, GroupKind::kPackedInt, {"tensor", "channel", "group"}},
    {"pack-quantized", "int", 8, GroupKind::kPackedInt, {"tensor", "channel", "group"}},
    {"int-quantized", "int", 8, GroupKind::kInt, {"tensor", "channel", "group", "block"}},
    {"naive-quantized", "int", 8, GroupKind::kInt, {"tensor", "channel", "group", "block"}},
    {"float-quantized", "float", 8, GroupKind::kE4M3, {"tensor", "channel", "group", "block"}},
    {"naive-quantized", "float", 8, GroupKind::kE4M3, {"tensor", "channel", "group", "block"}},
    {"nvfp4-pack-quantized", "float", 4, GroupKind::kNvfp4, {"tensor_group"}},
    {"mxfp4-pack-quantized", "float", 4, GroupKind::kMxfp4, {"group"}}};

/// The texts of an array. ERRORS: kInvalidArgument if a member is something else.
Status ReadTexts(const FlatJson& json, const std::string& key, std::vector<std::string>* texts) {
  const std::string path = QuantizationKey(key);
  if (!json.Has(path)) return Status::Ok();
  const auto* array = std::get_if<FlatJson::Array>(json.Find(path));
  if (array == nullptr) return InvalidArgument(fmt::format("config.json: '{}' is not a list", path));
  for (int64_t i = 0; i < array->members; ++i) {
    const auto text = json.String(fmt::format("{}.{}", path, i));
    if (!text) return InvalidArgument(fmt::format("config.json: '{}.{}' is not a string", path, i));
    texts->push_back(*text);
  }
  return Status::Ok();
}

/// Keys of config_groups.
std::vector<std::string> GroupNames(const FlatJson& json) {
  const std::string prefix = QuantizationKey("config_groups.");
  std::vector<std::string> names;
  for (auto at = json.values().lower_bound(prefix); at != json.values().end() && at->first.starts_with(prefix); ++at) {
    std::string name = at->first.substr(prefix.size());
    if (name.find('.') == std::string::npos) names.push_back(std::move(name));
  }
  return names;
}

class GroupReader {
 public:
  GroupReader(const FlatJson& json, const std::string& name)
      : json_(json), config_(json), group_("config_groups." + name), weights_(group_ + ".weights") {}

  bool has_weights() const { return json_.Has(QuantizationKey(weights_)); }

  Status Read(const std::string& default_format, CompressedGroup* out) {
    const Format* format = nullptr;
    RETURN_IF_ERROR(FindFormat(default_format, &format));
    out->kind = format->kind;
    out->bits = static_cast<int>(format->bits);
    bool dynamic = false;
    RETURN_IF_ERROR(config_.Optional(Weights("symmetric"), &out->symmetric));
    RETURN_IF_ERROR(config_.Optional(Weights("dynamic"), &dynamic));
    if (dynamic) return UnsupportedQuantization(weights_ + ".dynamic", "true", "false");
    RETURN_IF_ERROR(ReadBlock(*format, &out->block));
    RETURN_IF_ERROR(ReadTexts(json_, group_ + ".targets", &out->modules));
    // Class names of all matrices; others are names of modules.
    out->all = std::erase(out->modules, "Linear") > 0 || out->modules.empty();
    return Status::Ok();
  }

 private:
  std::string Weights(std::string_view key) const { return QuantizationKey(fmt::format("{}.{}", weights_, key)); }

  Status FindFormat(const std::string& default_format, const Format** found) const {
    const std::string name = config_.String(QuantizationKey(group_ + ".format"), default_format),
                      type = config_.String(Weights("type"), "int");
    int64_t bits = 0;
    RETURN_IF_ERROR(config_.Need(Weights("num_bits"), &bits));
    bool known = false, typed = false;
    for (const Format& format : kFormats) {
      if (format.name != name) continue;
      known = true;
      typed = typed || format.type == type;
      if (format.type == type && format.bits == bits) *found = &format;
    }
    if (*found != nullptr) return Status::Ok();
    if (known && typed) return UnsupportedQuantization(weights_ + ".num_bits", fmt::format("{}", bits), "4 and 8");
    if (known) return UnsupportedQuantization(weights_ + ".type", "'" + type + "'", "int and float");
    std::vector<std::string_view> names;
    for (const Format& format : kFormats) {
      if (std::ranges::find(names, format.name) == names.end()) names.push_back(format.name);
    }
    return UnsupportedQuantization("format", "'" + name + "'", fmt::format("{}", fmt::join(names, ", ")));
  }

  Status ReadBlock(const Format& format, ScaleBlock* block) const {
    const std::string size = weights_ + ".group_size", structure = weights_ + ".block_structure";
    const bool grouped = json_.Has(QuantizationKey(size));
    const std::string strategy = config_.String(Weights("strategy"), grouped ? "group" : "tensor");
    if (strategy.empty() ||
        std::ranges::find(format.strategies, std::string_view(strategy)) == std::end(format.strategies)) {
      return UnsupportedQuantization(weights_ + ".strategy", "'" + strategy + "'",
                                     fmt::format("{}", fmt::join(format.strategies, " ")));
    }
    if (format.kind == GroupKind::kNvfp4 || format.kind == GroupKind::kMxfp4) {
      int64_t group = 0;
      const int64_t wanted = format.kind == GroupKind::kNvfp4 ? 16 : 32;
      RETURN_IF_ERROR(config_.Need(QuantizationKey(size), &group));
      if (group == wanted) return Status::Ok();
      return UnsupportedQuantization(size, fmt::format("{}", group), fmt::format("{}", wanted));
    }
    block->outputs = strategy == "tensor" ? 0 : 1;
    if (strategy == "group") return ReadGroupSize(config_, size, &block->inputs);
    return strategy == "block" ? ReadScaleBlock(json_, structure, block) : Status::Ok();
  }

  const FlatJson& json_;
  const ConfigJson config_;
  const std::string group_, weights_;
};

/// Settings that change the weights' meaning.
Status RefuseOtherSettings(const ConfigJson& config) {
  const std::string sparsity = config.String(QuantizationKey("sparsity_config.format"), "dense");
  if (sparsity != "dense") return UnsupportedQuantization("sparsity_config.format", "'" + sparsity + "'", "dense");
  return config.ExpectNone(QuantizationKey("transform_config.config_groups"));
}

}  // namespace

std::string QuantizationKey(std::string_view key) { return "quantization_config." + std::string(key); }

Status UnsupportedQuantization(std::string_view key, std::string_view value, std::string_view supported) {
  return InvalidArgument(
      fmt::format("config.json: '{}' {} is not supported, only {}", QuantizationKey(key), value, supported));
}

Status ReadGroupSize(const ConfigJson& config, std::string_view key, int64_t* group) {
  RETURN_IF_ERROR(config.Need(QuantizationKey(key), group));
  if (*group != -1 && (*group < 32 || *group % 32 != 0 || *group > kMaxGroup)) {
    return UnsupportedQuantization(key, fmt::format("{}", *group), "multiples of 32, and -1");
  }
  *group = *group == -1 ? 0 : *group;
  return Status::Ok();
}

Status ReadScaleBlock(const FlatJson& json, std::string_view key, ScaleBlock* block) {
  const auto sizes = json.Ints(QuantizationKey(key));
  if (!sizes || sizes->size() != 2) {
    return InvalidArgument(fmt::format("config.json: '{}' is not a list of two numbers", QuantizationKey(key)));
  }
  const auto in_range = [](int64_t size) { return size >= 1 && size <= kMaxGroup; };
  *block = {sizes->front(), sizes->back()};
  if (in_range(block->outputs) && in_range(block->inputs) && block->inputs % 32 == 0) return Status::Ok();
  return UnsupportedQuantization(key, fmt::format("[{}, {}]", block->outputs, block->inputs),
                                 "positive numbers, the second a multiple of 32");
}

Status ReadCompressed(const FlatJson& json, PackedFormat* format) {
  const ConfigJson config(json);
  format->kind = PackedFormat::Kind::kCompressed;
  RETURN_IF_ERROR(RefuseOtherSettings(config));
  const std::string name = config.String(QuantizationKey("format"), "");
  for (const std::string& group : GroupNames(json)) {
    GroupReader reader(json, group);
    if (reader.has_weights()) RETURN_IF_ERROR(reader.Read(name, &format->groups.emplace_back()));
  }
  return ReadTexts(json, "ignore", &format->ignored);
}

}  // namespace ringside
