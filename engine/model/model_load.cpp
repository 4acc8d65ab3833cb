// Model::Load: from a GGUF file or a folder to weights on the device.
#include <fmt/format.h>

#include <filesystem>

#include "engine/families/faster_transformer_plan.h"
#include "engine/families/network_plan.h"
#include "engine/files/mapped_file.h"
#include "engine/files/safetensors_reader.h"
#include "engine/model/digest.h"
#include "engine/model/model_fingerprint.h"
#include "engine/model/model_state.h"
#include "engine/model/network_needs.h"
#include "engine/text/tokenizer_facts.h"

namespace ringside {
namespace {

constexpr size_t kMaxChatTemplateBytes = 1 << 20;
constexpr uint64_t kDummySeed = 1;
constexpr std::string_view kTextFiles[] = {"tokenizer.json", "tokenizer_config.json",  "vocab.json",
                                           "merges.txt",     "generation_config.json", "chat_template.jinja"};

Status In(const std::string& path, const Status& status) {
  if (status.ok() || status.message().starts_with(path)) return status;
  return {status.code(), fmt::format("{}: {}", path, status.message())};
}

// The template of a tokenizer_config.json: one text, or a list of named ones of which we take "default".
std::string ChatTemplate(const FlatJson& config) {
  if (auto text = config.String("chat_template")) return std::move(*text);
  const auto* list = config.Find("chat_template");
  const auto* array = list == nullptr ? nullptr : std::get_if<FlatJson::Array>(list);
  for (int64_t i = 0; array != nullptr && i < array->members; ++i) {
    const std::string entry = fmt::format("chat_template.{}.", i);
    if (config.String(entry + "name") == "default") return config.String(entry + "template").value_or("");
  }
  return "";
}

bool Has(const std::string& folder, std::string_view file) {
  std::error_code ignored;
  return std::filesystem::exists(fmt::format("{}/{}", folder, file), ignored);
}

Result<std::string> ReadChatTemplate(const std::string& folder) {
  const std::string jinja = folder + "/chat_template.jinja", config_path = folder + "/tokenizer_config.json";
  if (Has(folder, "chat_template.jinja")) {
    ASSIGN_OR_RETURN(const auto file, MappedFile::Open(jinja));
    if (file->bytes().size() > kMaxChatTemplateBytes) return Corruption(jinja + ": too long for a chat template");
    return std::string(reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size());
  }
  if (!Has(folder, "tokenizer_config.json")) return std::string();
  ASSIGN_OR_RETURN(const FlatJson config, FlatJson::ReadFile(config_path));
  return ChatTemplate(config);
}

// The first and the last token of a text, where the tokenizer's own files do not say which they are.
void NameTokens(std::optional<int64_t> first, std::optional<int64_t> last, TokenizerData* data) {
  const auto known = [&](const std::optional<int64_t>& id) { return id && *id >= 0 && *id < std::ssize(data->tokens); };
  if (!data->bos && known(first)) data->bos = static_cast<TokenId>(*first);
  if (!data->eos && known(last)) data->eos = static_cast<TokenId>(*last);
  CompleteSpecialTokens(data);
}

}  // namespace

Status Model::State::LoadNetwork(const NetworkPlan& network, const WeightsOf& weights_of, Digest* digest) {
  spec = network.spec;
  ASSIGN_OR_RETURN(shards, MakeShards(spec, layout));
  RETURN_IF_ERROR(group.Try([&](size_t here) {
    if (here >= backends.size()) return Status::Ok();
    Backend& backend = *backends[here];
    backend.UseOnThisThread();
    const Shard& shard = shards[static_cast<size_t>(first_rank) + here];
    ASSIGN_OR_RETURN(Weights weights, weights_of(shard, backend, here == 0 ? digest : nullptr));
    decoders[here] = std::make_unique<Decoder>(backend, spec, shard, VocabBorders(shards), std::move(weights));
    return Status::Ok();
  }));
  for (const auto& decoder : decoders) weight_bytes += decoder->weight_bytes();
  if (first_rank == 0 && layout.ranks() > 1) {
    std::vector<SlabMemory*> memories(backends.begin(), backends.end());
    for (const auto& remote : remotes) memories.push_back(remote.get());
    slabs = std::make_unique<SlabShards>(group, std::move(memories), shards, spec);
  }
  return Status::Ok();
}

Status Model::State::LoadPlanned(const Result<NetworkPlan>& plan, std::span<const FileTensor> tensors,
                                 std::span<const std::pair<std::string, std::string>> unsupported, Digest* digest) {
  RETURN_IF_ERROR(plan.status());
  RETURN_IF_ERROR(CheckNeeds(plan->spec, *backends.front()));
  RETURN_IF_ERROR(CheckTensors(*plan, tensors, unsupported));
  const WeightsOf weights_of = [&](const Shard& shard, Backend& backend, Digest* of_first) {
    return LoadWeights(*plan, tensors, shard, backend, of_first);
  };
  return LoadNetwork(*plan, weights_of, digest);
}

Status Model::State::LoadGguf(const std::string& path, Digest* digest) {
  ASSIGN_OR_RETURN(const GgufFile file, GgufFile::Open(path));
  RETURN_IF_ERROR(In(path, LoadPlanned(PlanGguf(file, path), file.tensors(), {}, digest)));
  chat_template = file.String("tokenizer.chat_template").value_or("");
  if (file.Find("tokenizer.ggml.model") == nullptr) return Status::Ok();
  auto read = ReadGgufTokenizer(file);
  RETURN_IF_ERROR(In(path, read.status()));
  tokenizer = std::move(*read);
  return Status::Ok();
}

Status Model::State::LoadHuggingFace(const std::string& folder, Digest* digest) {
  ASSIGN_OR_RETURN(const FlatJson config, FlatJson::ReadFile(folder + "/config.json"));
  RETURN_IF_ERROR(In(folder, CheckArchitecture(config)));
  ASSIGN_OR_RETURN(const SafeTensors file, SafeTensors::OpenFolder(folder));
  std::vector<std::string_view> names;
  for (const FileTensor& tensor : file.tensors()) names.push_back(tensor.name);
  RETURN_IF_ERROR(
      In(folder, LoadPlanned(PlanHuggingFace(config, names, folder), file.tensors(), file.unsupported(), digest)));
  return ReadTexts(folder);
}

// The tokenizer lies beside the weights, or in the folder above, of which there is one for any number of GPUs.
Status Model::State::LoadFasterTransformer(const std::string& folder, Digest* digest) {
  ASSIGN_OR_RETURN(const FasterTransformerFolder files, FasterTransformerFolder::Open(folder));
  const auto plan = PlanFasterTransformer(files);
  RETURN_IF_ERROR(In(files.path(), plan.status()));
  RETURN_IF_ERROR(In(files.path(), LoadPlanned(plan->network, plan->tensors, {}, digest)));
  for (const std::string& texts : {files.path(), files.path() + "/.."}) {
    const bool json = Has(texts, "tokenizer.json");
    if (!json && !Has(texts, "vocab.json")) continue;
    for (const std::string_view name : kTextFiles) {
      if (Has(texts, name)) RETURN_IF_ERROR(CheckInside(texts, fmt::format("{}/{}", texts, name)));
    }
    RETURN_IF_ERROR(ReadTexts(texts));
    if (!json) RETURN_IF_ERROR(ReadTokenizer(texts));
    NameTokens(plan->start_id, plan->end_id, &tokenizer);
    break;
  }
  return Status::Ok();
}

Status Model::State::MakeDummy(const std::string& folder, Digest* digest) {
  ASSIGN_OR_RETURN(const FlatJson config, FlatJson::ReadFile(folder + "/config.json"));
  auto plan = PlanHuggingFace(config, {}, folder);
  RETURN_IF_ERROR(In(folder, plan.status()));
  RETURN_IF_ERROR(In(folder, CheckNeeds(plan->spec, *backends.front())));
  const WeightsOf weights_of = [&](const Shard& shard, Backend& backend, Digest* of_first) {
    return MakeWeights(*plan, kDummySeed, shard, backend, of_first);
  };
  RETURN_IF_ERROR(In(folder, LoadNetwork(*plan, weights_of, digest)));
  RETURN_IF_ERROR(ReadTexts(folder));
  if (tokenizer.tokens.empty()) tokenizer = MadeUpTokenizer(spec.vocab);
  return Status::Ok();
}

Status Model::State::ReadTexts(const std::string& folder) {
  ASSIGN_OR_RETURN(chat_template, ReadChatTemplate(folder));
  return Has(folder, "tokenizer.json") ? ReadTokenizer(folder) : Status::Ok();
}

Status Model::State::ReadTokenizer(const std::string& folder) {
  auto read = ReadHuggingFaceTokenizer(folder);
  RETURN_IF_ERROR(In(folder, read.status()));
  tokenizer = std::move(*read);
  return Status::Ok();
}

Result<std::unique_ptr<Model>> Model::Load(const std::string& path, Backend& backend) {
  Backend* const only = &backend;
  return Load(path, {&only, 1});
}

Status Model::State::Load(const std::string& path, LoadFormat format) {
  Digest digest;
  std::error_code ignored;
  RETURN_IF_ERROR(format == LoadFormat::kDummy                   ? MakeDummy(path, &digest)
                  : FasterTransformerFolder::Find(path)          ? LoadFasterTransformer(path, &digest)
                  : std::filesystem::is_directory(path, ignored) ? LoadHuggingFace(path, &digest)
                                                                 : LoadGguf(path, &digest));
  const auto tokens = static_cast<int64_t>(tokenizer.tokens.size());
  if (tokens > spec.vocab) {
    return InvalidArgument(fmt::format("{}: the tokenizer has {} tokens, the model {}", path, tokens, spec.vocab));
  }
  const Backend& first = *backends.front();
  fingerprint = FingerprintOf(digest.Get(), tokenizer, chat_template, first.activation_dtype(), first.weight_dtype());
  return Status::Ok();
}

Result<std::unique_ptr<Model>> Model::Load(const std::string& path, std::span<Backend* const> ranks, int stages,
                                           LoadFormat format) {
  auto state = std::make_unique<State>(ranks, stages, nullptr);
  RETURN_IF_ERROR(state->Load(path, format));
  return std::unique_ptr<Model>(new Model(std::move(state)));
}

}  // namespace ringside
