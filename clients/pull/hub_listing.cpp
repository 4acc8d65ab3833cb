#include "clients/pull/hub_listing.h"

#include <map>
#include <nlohmann/json.hpp>
#include <regex>

#include "base/json/json_tree.h"
#include "clients/models/gguf_choice.h"
#include "clients/wire/json_fields.h"

namespace ringside::client {
namespace {

/// One file of a repository's listing.
struct HubFile {
  uint64_t size = 0;
  ExpectedDigest digest;
};

/// By path. Entries without a size or a digest are left out: they could not be verified.
std::map<std::string, HubFile> ReadListing(const nlohmann::json& repository) {
  std::map<std::string, HubFile> files;
  const nlohmann::json* siblings = Find(repository, "siblings");
  if (siblings == nullptr || !siblings->is_array()) return files;
  for (const nlohmann::json& entry : *siblings) {
    const nlohmann::json* large = Find(entry, "lfs");
    HubFile file;
    const int64_t size = Count(large != nullptr ? *large : entry, "size");
    file.digest = large != nullptr ? ExpectedDigest{ExpectedDigest::Kind::kSha256, Text(*large, "sha256")}
                                   : ExpectedDigest{ExpectedDigest::Kind::kGitBlob, Text(entry, "blobId")};
    if (size < 0 || file.digest.hex.empty()) continue;
    file.size = static_cast<uint64_t>(size);
    files[Text(entry, "rfilename")] = file;
  }
  return files;
}

/// Files at the top of a repository that a folder of safetensors consists of.
bool IsFolderFile(const std::string& path) {
  static const std::regex kText(R"([^/]+\.(safetensors|json|jinja|model|txt))");
  return std::regex_match(path, kText) && !path.starts_with("consolidated");
}

/// The chosen files, and the place of the model.
Outcome<std::vector<std::string>> ChooseFiles(const PullReference& reference,
                                              const std::map<std::string, HubFile>& listing, RemoteModel& model) {
  std::vector<std::string> paths, folder;
  bool weights = false;
  for (const auto& [path, file] : listing) {
    paths.push_back(path);
    if (path.size() > 1000 || !IsFolderFile(path)) continue;
    folder.push_back(path);
    weights |= path.ends_with(".safetensors");
  }
  model.target = reference.Place();
  const std::vector<GgufModel> ggufs = GroupGgufFiles(paths);
  const bool wants_folder = EqualsIgnoringCase(reference.variant, "safetensors");
  if (!ggufs.empty() && !wants_folder) {
    const Outcome<GgufModel> chosen = ChooseGguf(ggufs, reference.variant);
    if (!chosen) return Failure{model.name + ": " + chosen.failure().message};
    model.is_folder = chosen->files.size() > 1;
    model.target += "/" + chosen->name + (model.is_folder ? "" : ".gguf");
    if (!IsPlainFileName(chosen->name)) return Failure{model.name + " lists a file with an unusable name."};
    return chosen->files;
  }
  if (weights && listing.contains("config.json") && (wants_folder || reference.variant.empty())) {
    model.is_folder = true;
    return folder;
  }
  const std::string wanted = reference.variant.empty() ? "" : " in " + reference.variant;
  return Failure{model.name + " has no model" + wanted + " in GGUF files or safetensors."};
}

/// Fills in the files, at this commit.
Outcome<RemoteModel> WithFiles(RemoteModel model, const WebUrl& hub, const std::string& commit,
                               const std::vector<std::string>& chosen, const std::map<std::string, HubFile>& listing) {
  for (const std::string& path : chosen) {
    const HubFile& file = listing.at(path);
    const std::string name = path.substr(path.rfind('/') + 1);
    if (!IsPlainFileName(name)) return Failure{model.name + " lists a file with an unusable name."};
    WebUrl url = hub;
    url.target += "/" + model.name + "/resolve/" + EncodePath(commit) + "/" + EncodePath(path);
    model.files.push_back({name, url, file.size, file.digest});
  }
  return model;
}

}  // namespace

Outcome<RemoteModel> ReadHubListing(const PullReference& reference, const WebUrl& hub, std::string_view text) {
  RemoteModel model{.name = reference.Describe(), .is_on_hub = true};
  const nlohmann::json repository = ParseJsonTree(text, kLargeJson);
  const std::string commit = Text(repository, "sha");
  const std::map<std::string, HubFile> listing = ReadListing(repository);
  if (listing.empty() || commit.empty()) {
    return Failure{hub.Authority() + " sends no list of files for " + model.name + "."};
  }
  const Outcome<std::vector<std::string>> chosen = ChooseFiles(reference, listing, model);
  if (!chosen) return chosen.failure();
  return WithFiles(std::move(model), hub, commit, *chosen, listing);
}

}  // namespace ringside::client
