#include "ws/config/model_id.h"

#include <algorithm>
#include <filesystem>
#include <string_view>

namespace ringside {
namespace {

constexpr std::string_view kFallback = "ringside";
constexpr size_t kHashDigits = 32;

bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }

/// Lower case, with one '-' for each run of other characters.
std::string Slug(std::string_view text) {
  std::string slug;
  for (char c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + ('a' - 'A'));
    const bool keeps = IsLetter(c) || c == '.' || c == '_';
    if (keeps) {
      slug += c;
    } else if (!slug.empty() && slug.back() != '-') {
      slug += '-';
    }
  }
  while (!slug.empty() && !IsLetter(slug.back())) slug.pop_back();
  return slug;
}

bool IsDigits(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

/// "q4_1", "iq2_xs", "bf16", "fp16": number formats, which are not part of a model's name.
bool IsNumberFormat(std::string_view part) {
  if (part == "f16" || part == "f32" || part == "bf16" || part == "fp16" || part == "fp32" || part == "fp8")
    return true;
  if (part.starts_with("i")) part.remove_prefix(1);
  return part.size() >= 2 && part[0] == 'q' && part[1] >= '1' && part[1] <= '8' && (part.size() == 2 || part[2] == '_');
}

/// Removes ".q4_1", "-q4_k_m" and "-00001-of-00003".
std::string_view WithoutSuffixes(std::string_view slug) {
  while (true) {
    const size_t at = slug.find_last_of(".-");
    if (at == std::string_view::npos || at == 0) return slug;
    const std::string_view part = slug.substr(at + 1);
    const std::string_view before = slug.substr(0, at);
    if (IsNumberFormat(part)) {
      slug = before;
    } else if (IsDigits(part) && before.ends_with("-of") && before.size() > 3) {
      slug = before.substr(0, before.size() - 3);
      const size_t number = slug.rfind('-');
      if (number != std::string_view::npos && IsDigits(slug.substr(number + 1))) slug = slug.substr(0, number);
    } else {
      return slug;
    }
  }
}

bool HasNoEffect(std::string_view slug) {
  for (const std::string_view word : {"model", "ggml-model", "gguf", "weights", "main", "snapshot", "sha256"}) {
    if (slug == word || slug.starts_with("sha256-")) return true;
  }
  const bool hexadecimal =
      std::all_of(slug.begin(), slug.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
  return slug.empty() || (hexadecimal && slug.size() >= kHashDigits);
}

}  // namespace

std::string ModelId(const std::string& path, const std::string& own_name) {
  std::filesystem::path file = std::filesystem::path(path).lexically_normal();
  if (!file.has_filename()) file = file.parent_path();
  std::string name = file.filename().string();
  if (file.extension() == ".gguf") name = file.stem().string();
  // Hugging Face cache layout: models--ORGANISATION--NAME/snapshots/HASH.
  for (const std::filesystem::path& folder : file.parent_path()) {
    const std::string text = folder.string();
    if (text.starts_with("models--") && HasNoEffect(Slug(name))) name = text.substr(text.rfind("--") + 2);
  }
  std::string slug = Slug(name);
  std::string id(WithoutSuffixes(slug));
  if (HasNoEffect(id)) id = Slug(own_name);
  return HasNoEffect(id) ? std::string(kFallback) : id;
}

}  // namespace ringside
