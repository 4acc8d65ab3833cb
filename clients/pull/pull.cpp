#include "clients/pull/pull.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>

#include "clients/models/model_folders.h"
#include "clients/models/ollama_manifest.h"
#include "clients/pull/model_download.h"
#include "clients/pull/model_sources.h"
#include "clients/terminal/sanitiser.h"

namespace ringside::client {
namespace {

constexpr int kUnusable = 2;  // exit code

Outcome<RemoteModel> FindRemote(const PullReference& reference, const std::string& sha256, const WebAccess& access) {
  switch (reference.kind) {
    case PullReference::Kind::kHub:
      return FindOnHub(reference, access);
    case PullReference::Kind::kOllama:
      return FindInOllamaRegistry(reference, access);
    case PullReference::Kind::kUrl:
      return FindAtUrl(reference, sha256);
  }
  return Failure{""};
}

}  // namespace

Outcome<std::string> Pull(const PullReference& reference, const PullOptions& options) {
  const std::string folder = ModelsFolder();
  if (folder.empty()) return Failure{"There is no folder for models: set HOME or XDG_CACHE_HOME."};
  DownloadOptions download{.access = {.ca_file = options.ca_file, .timeout = std::chrono::seconds(options.timeout_s)},
                           .retries = options.retries};
  if (const char* token = std::getenv("HF_TOKEN")) download.access.token = token;
  const bool printable =
      std::ranges::all_of(download.access.token, [](unsigned char c) { return c > ' ' && c < 0x7f; });
  if (!printable) return Failure{"HF_TOKEN must be one word."};
  const Outcome<RemoteModel> model = FindRemote(reference, options.sha256, download.access);
  if (!model) return model.failure();
  ProgressLine progress(options.quiet);
  return DownloadModel(folder, *model, download, progress);
}

int PullModel(const PullOptions& options) {
  const auto refuse = [](const std::string& why, int code) {
    std::fprintf(stderr, "ringside: %s\n", Sanitise(why).c_str());
    return code;
  };
  PullOptions given = options;
  std::ranges::transform(given.sha256, given.sha256.begin(), [](unsigned char c) { return std::tolower(c); });
  const Outcome<PullReference> reference = ParsePullReference(given.reference);
  if (!reference) return refuse(reference.failure().message, kUnusable);
  if (!given.sha256.empty() && (!IsSha256(given.sha256) || reference->kind != PullReference::Kind::kUrl)) {
    return refuse("--sha256 takes 64 hexadecimal digits, and only with a URL; other sources state their digests.",
                  kUnusable);
  }
  const Outcome<std::string> path = Pull(*reference, given);
  if (!path) return refuse(path.failure().message, 1);
  std::printf("%s\n", path->c_str());
  return 0;
}

}  // namespace ringside::client
