#include "clients/pull/model_sources.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <regex>

#include "clients/models/ollama_manifest.h"
#include "clients/pull/hub_listing.h"
#include "clients/pull/refusal.h"

namespace ringside::client {
namespace {

using Digest = ExpectedDigest::Kind;

/// The server at the variable's address, or the usual one.
Outcome<WebUrl> ServerAt(const char* variable, const char* usual) {
  const char* set = std::getenv(variable);
  Outcome<WebUrl> url = ParseWebUrl(set != nullptr && set[0] != '\0' ? set : usual);
  if (!url) return Failure{std::string(variable) + ": " + url.failure().message};
  while (url->target.ends_with('/')) url->target.pop_back();
  return url;
}

WebUrl Under(WebUrl server, const std::string& path) {
  server.target += path;
  return server;
}

}  // namespace

Outcome<RemoteModel> FindOnHub(const PullReference& reference, const WebAccess& access) {
  const Outcome<WebUrl> hub = ServerAt("HF_ENDPOINT", "https://huggingface.co");
  if (!hub) return hub.failure();
  const std::string name = reference.Describe();
  const std::string path = "/api/models/" + name + "/revision/" + EncodePath(reference.revision) + "?blobs=true";
  const Outcome<GetAnswer> answer =
      GetText({.url = Under(*hub, path), .headers = {{"Accept", "application/json"}}, .sends_token = true}, access);
  if (!answer) return answer.failure();
  if (answer->status != 200) {
    return Failure{DescribeRefusal(answer->status, hub->Authority(), name, true, !access.token.empty())};
  }
  return ReadHubListing(reference, *hub, answer->body);
}

Outcome<RemoteModel> FindInOllamaRegistry(const PullReference& reference, const WebAccess& access) {
  const Outcome<WebUrl> registry = ServerAt("OLLAMA_REGISTRY", "https://registry.ollama.ai");
  if (!registry) return registry.failure();
  const std::string path = "/v2/" + reference.owner + "/" + reference.name;
  const std::string name = reference.Describe();
  const Outcome<GetAnswer> answer =
      GetText({.url = Under(*registry, path + "/manifests/" + reference.variant),
               .headers = {{"Accept", "application/vnd.docker.distribution.manifest.v2+json"}}},
              access);
  if (!answer) return answer.failure();
  if (answer->status != 200) return Failure{DescribeRefusal(answer->status, registry->Authority(), name, false, false)};
  const Outcome<OllamaLayer> layer = ReadOllamaManifest(answer->body);
  if (!layer) return Failure{name + ": " + layer.failure().message + "."};
  RemoteModel model{.name = name, .target = reference.Place()};
  const std::string file = model.target.substr(model.target.rfind('/') + 1);
  model.files.push_back(
      {file, Under(*registry, path + "/blobs/sha256:" + layer->sha256), layer->size, {Digest::kSha256, layer->sha256}});
  return model;
}

Outcome<RemoteModel> FindAtUrl(const PullReference& reference, const std::string& sha256) {
  static const std::regex kPart(R"((.+)-(\d{5})-of-(\d{5})\.gguf)");
  const WebUrl& url = reference.url;
  const std::string file = url.FileName();
  if (!IsPlainFileName(file) || !file.ends_with(".gguf")) {
    return Failure{"The URL must end in the name of a GGUF file."};
  }
  RemoteModel model{.name = url.Authority(), .target = url.host};
  // The folders of the URL, so that equal names do not collide.
  const std::string path = url.target.substr(0, url.target.find('?'));
  const std::string folders = path.substr(0, path.rfind('/'));
  for (size_t at = 1; at < folders.size();) {
    const size_t end = std::min(folders.find('/', at), folders.size());
    const std::string part = folders.substr(at, end - at);
    if (IsPlainFileName(part)) model.target += "/" + part;
    at = end + 1;
  }
  std::smatch match;
  const ExpectedDigest digest{sha256.empty() ? Digest::kNone : Digest::kSha256, sha256};
  if (!std::regex_match(file, match, kPart)) {
    model.target += "/" + file;
    model.files.push_back({file, url, std::nullopt, digest});
    return model;
  }
  const unsigned long parts = std::stoul(match[3]);
  if (!sha256.empty() || parts == 0 || parts > 1000) return Failure{"A digest is for a model of one file."};
  model.is_folder = true;
  model.target += "/" + match[1].str();
  for (unsigned long part = 1; part <= parts; ++part) {
    char number[16];
    std::snprintf(number, sizeof number, "-%05lu-of-", part);
    const std::string name = match[1].str() + number + match[3].str() + ".gguf";
    WebUrl at = url;
    at.target = folders + "/" + EncodePath(name);
    model.files.push_back({name, at, std::nullopt, {}});
  }
  return model;
}

}  // namespace ringside::client
