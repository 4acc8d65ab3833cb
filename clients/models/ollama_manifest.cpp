#include "clients/models/ollama_manifest.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json/json_tree.h"
#include "clients/wire/json_fields.h"

namespace ringside::client {
namespace {

constexpr std::string_view kModel = "application/vnd.ollama.image.model";
constexpr std::string_view kPrefix = "sha256:";

}  // namespace

bool IsSha256(std::string_view text) {
  return text.size() == 64 &&
         std::ranges::all_of(text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

Outcome<OllamaLayer> ReadOllamaManifest(std::string_view text) {
  const nlohmann::json manifest = ParseJsonTree(text);
  const nlohmann::json* layers = Find(manifest, "layers");
  if (layers == nullptr || !layers->is_array()) return Failure{"the manifest has no list of layers"};
  for (const nlohmann::json& layer : *layers) {
    if (Text(layer, "mediaType") != kModel) continue;
    const std::string digest = Text(layer, "digest");
    const int64_t size = Count(layer, "size");
    if (!digest.starts_with(kPrefix) || !IsSha256(digest.substr(kPrefix.size())) || size <= 0) {
      return Failure{"the manifest has a layer without a digest or a size"};
    }
    return OllamaLayer{digest.substr(kPrefix.size()), static_cast<uint64_t>(size)};
  }
  return Failure{"the model has no GGUF file"};
}

}  // namespace ringside::client
