// What `ringside pull` reads from people and servers: references, listings, manifests, redirects. Input: a reference, a
// listing or manifest, a Location header. No file leaves the models' folder, whatever they contain.
#include <algorithm>

#include "clients/models/gguf_choice.h"
#include "clients/models/ollama_manifest.h"
#include "clients/pull/hub_listing.h"
#include "clients/pull/model_sources.h"
#include "tests/fuzz/fuzz_target.h"

namespace ringside {
namespace {

using namespace client;

constexpr const char* kListing =
    R"({"sha": "0123", "siblings": [{"rfilename": "config.json", "size": 2, "blobId": "9e26"},)"
    R"({"rfilename": "a-Q4_K_M.gguf", "size": 9, "lfs": {"sha256": "ab", "size": 9}},)"
    R"({"rfilename": "Q8_0/b-Q8_0-00001-of-00002.gguf", "lfs": {"sha256": "cd", "size": 9}},)"
    R"({"rfilename": "Q8_0/b-Q8_0-00002-of-00002.gguf", "lfs": {"sha256": "ef", "size": 9}},)"
    R"({"rfilename": "model.safetensors", "lfs": {"sha256": "01", "size": 9}}]})";

void CheckPlaces(const Outcome<RemoteModel>& model) {
  if (!model) return;
  Require(!model->files.empty(), "a model has files");
  Require(!model->target.starts_with('/'), "the target is below the models' folder");
  Require(("/" + model->target + "/").find("/../") == std::string::npos, "the target does not leave the folder");
  Require(("/" + model->target).find("/.") == std::string::npos, "the target is not hidden");
  for (const RemoteFile& file : model->files) Require(IsPlainFileName(file.name), "a file is in its folder");
}

}  // namespace

std::vector<std::string> Seeds() {
  const std::string digest(64, 'a');
  const std::string manifest =
      R"({"layers": [{"mediaType": "application/vnd.ollama.image.model", "size": 5, "digest": "sha256:)" + digest +
      "\"}]}";
  return {JoinParts({"hf:ada/Tiny-GGUF:Q4_K_M", kListing, "/cdn/file?key=1"}),
          JoinParts({"hf:ada/Tiny:safetensors", kListing, "https://cdn.example.org/x"}),
          JoinParts({"hf:ada/Tiny:q8_0", kListing, "//cdn.example.org/x"}),
          JoinParts({"https://huggingface.co/ada/Tiny/blob/main/a-Q4_K_M.gguf", kListing, "../x"}),
          JoinParts({"https://hf.co/../Tiny/tree/main", kListing, "https://.example.org/x"}),
          JoinParts({"https://example.org/a/b/c-00001-of-00003.gguf?x=%2e%2e", manifest, "http://h/"}),
          JoinParts({"bob/qwen3:4b", manifest, "?y"})};
}

}  // namespace ringside

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ringside;
  using namespace ringside::client;
  const auto parts = SplitParts(data, size, 3);
  const WebUrl hub{.host = "hub.example.org", .target = ""};
  (void)ReadOllamaManifest(parts[1]);
  (void)FollowLocation(hub, parts[2].substr(0, 4096));
  const Outcome<PullReference> reference = ParsePullReference(parts[0]);
  if (!reference) return 0;
  (void)reference->Describe();
  if (reference->kind == PullReference::Kind::kHub) CheckPlaces(ReadHubListing(*reference, hub, parts[1]));
  if (reference->kind == PullReference::Kind::kUrl) CheckPlaces(FindAtUrl(*reference, ""));
  return 0;
}
