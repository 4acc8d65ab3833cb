#include "clients/pull/pull_reference.h"

#include <regex>

namespace ringside::client {
namespace {

constexpr size_t kMaxReferenceBytes = 500;
constexpr const char* kHubHosts[] = {"huggingface.co", "hf.co", "www.huggingface.co"};

Failure NoReference(std::string_view text) {
  return Failure{"\"" + std::string(text.substr(0, 200)) +
                 "\" is no model to pull. Give hf:OWNER/REPO, hf:OWNER/REPO:Q4_K_M, a name of Ollama's library such as "
                 "qwen3:4b, or the URL of a GGUF file."};
}

/// Removes a prefix by which other programs mark Hugging Face's hub.
bool TakeHubPrefix(std::string_view& text) {
  for (const std::string_view prefix : {"hf:", "hf.co/", "huggingface.co/"}) {
    if (!text.starts_with(prefix)) continue;
    text.remove_prefix(prefix.size());
    if (text.starts_with("//")) text.remove_prefix(2);  // hf://
    return true;
  }
  return false;
}

/// The repository or file of a URL of the hub's pages.
Outcome<PullReference> ReadHubUrl(const WebUrl& url) {
  static const std::regex kPage(R"(/(\w[\w.-]*)/(\w[\w.-]*)(?:/(?:resolve|blob|tree)/(\w[\w.-]*)(?:/(.+))?)?/?)");
  const std::string path = url.target.substr(0, url.target.find_first_of("?#"));
  std::smatch match;
  if (!std::regex_match(path, match, kPage)) return NoReference(url.ToString());
  PullReference reference{.kind = PullReference::Kind::kHub, .owner = match[1], .name = match[2]};
  if (match[3].matched) reference.revision = match[3];
  if (!match[4].matched) return reference;
  static const std::regex kEnding(R"((?:-\d{5}-of-\d{5})?\.gguf$)");
  const std::string file = url.FileName();
  reference.variant = std::regex_replace(file, kEnding, "");
  if (reference.variant == file) return Failure{"The file " + file + " is no GGUF file. Pull its repository instead."};
  return reference;
}

}  // namespace

std::string PullReference::Describe() const {
  if (kind == PullReference::Kind::kUrl) return url.ToString();
  const std::string all = owner.empty() || owner == "library" ? name : owner + "/" + name;
  return kind == PullReference::Kind::kHub || variant.empty() ? all : all + ":" + variant;
}

std::string PullReference::Place() const {
  const std::string place = owner + "/" + name;
  return kind == PullReference::Kind::kOllama ? "ollama/" + place + "-" + variant + ".gguf" : place;
}

Outcome<PullReference> ParsePullReference(std::string_view text) {
  if (text.size() > kMaxReferenceBytes) return NoReference(text);
  if (text.starts_with("https://") || text.starts_with("http://")) {
    const Outcome<WebUrl> url = ParseWebUrl(text);
    if (!url) return url.failure();
    for (const char* host : kHubHosts) {
      if (url->host == host) return ReadHubUrl(*url);
    }
    return PullReference{.kind = PullReference::Kind::kUrl, .url = *url};
  }
  // Each part begins with a letter or digit: ".." and hidden names are none.
  static const std::regex kHub(R"((\w[\w.-]*)/(\w[\w.-]*)(?::(\w[\w.-]*))?)");
  static const std::regex kOllama(R"((?:(\w[\w.-]*)/)?(\w[\w.-]*)(?::(\w[\w.-]*))?)");
  const bool on_hub = TakeHubPrefix(text);
  const std::string rest(text);
  std::smatch match;
  if (!std::regex_match(rest, match, on_hub ? kHub : kOllama) || rest.ends_with(".gguf")) return NoReference(text);
  if (on_hub)
    return PullReference{.kind = PullReference::Kind::kHub, .owner = match[1], .name = match[2], .variant = match[3]};
  return PullReference{.kind = PullReference::Kind::kOllama,
                       .owner = match[1].matched ? match[1].str() : "library",
                       .name = match[2],
                       .variant = match[3].matched ? match[3].str() : "latest"};
}

}  // namespace ringside::client
