#include "engine/model/weights/model_files.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <map>
#include <set>

#include "base/log.h"
#include "engine/families/huggingface/quantization_config.h"
#include "engine/files/file_paths.h"
#include "engine/files/gguf_scales.h"
#include "engine/files/mapped_file.h"
#include "engine/files/safetensors_reader.h"
#include "engine/import/import.h"
#include "engine/text/gpt2_tokenizer.h"
#include "engine/text/tokenizer_facts.h"

namespace ringside {
namespace {

constexpr size_t kMaxChatTemplateBytes = 1 << 20;

// The template in a tokenizer_config.json: one text, or "default" of a list of named ones.
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

// Sets the BOS and EOS tokens that the tokenizer's own files do not name.
void NameTokens(std::optional<int64_t> first, std::optional<int64_t> last, TokenizerData* data) {
  const auto known = [&](const std::optional<int64_t>& id) { return id && *id >= 0 && *id < std::ssize(data->tokens); };
  if (!data->bos && known(first)) data->bos = static_cast<TokenId>(*first);
  if (!data->eos && known(last)) data->eos = static_cast<TokenId>(*last);
  CompleteSpecialTokens(data);
}

Status ReadTokenizer(const std::string& folder, TokenizerData* tokenizer) {
  auto read = ReadHuggingFaceTokenizer(folder);
  RETURN_IF_ERROR(WithPath(folder, read.status()));
  *tokenizer = std::move(*read);
  return Status::Ok();
}

/// The tensors of the plan, in its order. ERRORS: kInvalidArgument, with the name, if one is missing, misshapen or of a
/// type without floats.
Result<std::vector<FileTensor>> FindVisionTensors(const VisionPlan& plan, std::span<const FileTensor> tensors) {
  std::map<std::string_view, const FileTensor*> table;
  for (const FileTensor& tensor : tensors) table.emplace(tensor.name, &tensor);
  std::vector<FileTensor> found;
  for (const PlannedVisionTensor& planned : plan.tensors) {
    const auto at = table.find(planned.name);
    if (at == table.end()) return InvalidArgument(fmt::format("tensor '{}' is missing", planned.name));
    const FileTensor& tensor = *at->second;
    if (tensor.shape != planned.shape) {
      return InvalidArgument(fmt::format("tensor '{}' has shape [{}]; the config requires [{}]", planned.name,
                                         fmt::join(tensor.shape, ", "), fmt::join(planned.shape, ", ")));
    }
    if (tensor.packed != nullptr || IsQuantized(tensor.data.dtype)) {
      return InvalidArgument(fmt::format("tensor '{}' is quantized", planned.name));
    }
    found.push_back(tensor);
  }
  return found;
}

/// The tower's file in the folder of a GGUF file, as named by llama.cpp; "" unless there is exactly one.
std::string FindProjector(const std::string& path) {
  std::error_code failed;
  std::string found;
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::filesystem::directory_iterator entry(folder.empty() ? "." : folder, failed);
  for (; !failed && entry != std::filesystem::directory_iterator(); entry.increment(failed)) {
    std::string name = entry->path().filename().string();
    std::ranges::transform(name, name.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    if (name.find("mmproj") == std::string::npos || !name.ends_with(".gguf")) continue;
    if (!found.empty()) return "";
    found = entry->path().string();
  }
  return found;
}

/// The tower's tensors among `tensors`, and its tokens. ERRORS: kInvalidArgument if the text network does not fit.
Result<std::shared_ptr<const VisionFiles>> MakeVision(VisionPlan plan, std::span<const FileTensor> tensors,
                                                      const ModelFiles& files,
                                                      std::shared_ptr<const GgufFile> reader = nullptr) {
  const auto& rotations = files.plan.spec.rotations;
  if (plan.spec.grids && std::ranges::all_of(rotations, [](const Rotation& one) { return one.axes.empty(); })) {
    return InvalidArgument("the text network's sections of three positions (mrope) are missing or do not fit");
  }
  if (std::ssize(plan.spec.deep_layers) > files.plan.spec.layers) {
    return InvalidArgument("the vision tower has more projected layers than the text network has layers");
  }
  ASSIGN_OR_RETURN(std::vector<FileTensor> found, FindVisionTensors(plan, tensors));
  ASSIGN_OR_RETURN(ImageFormat format, ImageFormat::Make(plan.spec, files.tokenizer));
  return std::make_shared<const VisionFiles>(
      VisionFiles{std::move(plan), std::move(found), std::move(format), std::move(reader)});
}

Result<std::shared_ptr<const VisionFiles>> OpenProjector(const std::string& path, const ModelFiles& files) {
  ASSIGN_OR_RETURN(GgufFile opened, GgufFile::Open(path));
  const auto file = std::make_shared<const GgufFile>(std::move(opened));
  ASSIGN_OR_RETURN(VisionPlan plan, PlanGgufVision(*file, files.plan.spec));
  return MakeVision(std::move(plan), file->tensors(), files, file);
}

/// Sets files->vision if there is a tower next to the file; one that does not fit is reported and not used.
void AddProjector(const std::string& path, ModelFiles* files) {
  const std::string found = FindProjector(path);
  if (found.empty() || found == path) return;
  auto vision = OpenProjector(found, *files);
  if (!vision.ok()) {
    LogWarning("the model '{}' is used without images: {}", files->plan.spec.name,
               WithPath(found, vision.status()).message());
    return;
  }
  LogInfo("the model '{}' reads images with {}", files->plan.spec.name, found);
  files->vision = std::move(*vision);
}

Result<ModelFiles> OpenGguf(const std::string& path, DraftLayer draft) {
  ASSIGN_OR_RETURN(GgufFile opened, GgufFile::Open(path));
  const auto file = std::make_shared<const GgufFile>(std::move(opened));
  ModelFiles out{.format = ModelFiles::Format::kGguf, .tensors = file->tensors(), .reader = file};
  RETURN_IF_ERROR(JoinGgufScales(&out.tensors));
  ASSIGN_OR_RETURN(out.plan, PlanGguf(*file, path, draft));
  out.chat_template = file->String("tokenizer.chat_template").value_or("");
  if (file->String("tokenizer.ggml.model").value_or("no_vocab") == "no_vocab") return out;
  ASSIGN_OR_RETURN(out.tokenizer, ReadGgufTokenizer(*file));
  AddProjector(path, &out);
  return out;
}

// Published OPT folders have only vocab.json and merges.txt. Other families use other pre-tokenizer patterns.
bool HasGpt2Tokenizer(std::string_view architecture) {
  return architecture == "gpt2" || architecture == "gptj" || architecture == "opt";
}

bool IsZero(const FileTensor& tensor) {
  return std::ranges::all_of(tensor.data.bytes, [](std::byte byte) { return byte == std::byte{0}; });
}

// GPTQ writers give every matrix a bias, of zeros if the network has none.
void DropZeroBiases(const NetworkPlan& plan, std::vector<FileTensor>* tensors) {
  std::set<std::string_view> kept, packed;
  for (const PlannedTensor& planned : plan.tensors) kept.insert(planned.name);
  for (const FileTensor& tensor : *tensors) {
    if (tensor.packed != nullptr) packed.insert(tensor.name);
  }
  std::erase_if(*tensors, [&](const FileTensor& tensor) {
    constexpr std::string_view kBias = ".bias";
    if (!tensor.name.ends_with(kBias) || kept.contains(tensor.name)) return false;
    const std::string matrix = tensor.name.substr(0, tensor.name.size() - kBias.size()) + ".weight";
    return packed.contains(matrix) && IsZero(tensor);
  });
}

// Removes the parts of the file that are not computed, and reports them.
void DropSkipped(const NetworkPlan& plan, ModelFiles* files) {
  std::map<std::string_view, int> dropped;  // by prefix
  const auto skipped = [&](std::string_view name) {
    const auto prefix = std::ranges::find_if(plan.skipped, [&](const auto& part) { return name.starts_with(part); });
    if (prefix == plan.skipped.end()) return false;
    ++dropped[*prefix];
    return true;
  };
  std::erase_if(files->tensors, [&](const FileTensor& tensor) { return skipped(tensor.name); });
  std::erase_if(files->unsupported, [&](const auto& named) { return skipped(named.first); });
  if (files->vision != nullptr) return;
  std::string parts;
  for (const auto& [prefix, count] : dropped) {
    parts += fmt::format("{}{}* ({} tensors)", parts.empty() ? "" : ", ", prefix, count);
  }
  if (!parts.empty()) LogInfo("the model '{}' is used for text; not loaded: {}", plan.spec.name, parts);
}

/// The image processor's settings, as far as there are any.
Result<std::vector<FlatJson>> ReadProcessors(const std::string& folder) {
  std::vector<FlatJson> processors;
  for (const char* name : {"preprocessor_config.json", "processor_config.json"}) {
    if (!Has(folder, name)) continue;
    ASSIGN_OR_RETURN(FlatJson processor, FlatJson::ReadFile(fmt::format("{}/{}", folder, name)));
    processors.push_back(std::move(processor));
  }
  return processors;
}

Result<std::shared_ptr<const VisionFiles>> FindVision(const std::string& folder, const FlatJson& config,
                                                      std::span<const std::string_view> names,
                                                      const ModelFiles& files) {
  ASSIGN_OR_RETURN(const std::vector<FlatJson> processors, ReadProcessors(folder));
  ASSIGN_OR_RETURN(auto plan, PlanVision(config, processors, names, files.plan.spec.hidden));
  if (!plan) return std::shared_ptr<const VisionFiles>();
  return MakeVision(std::move(*plan), files.tensors, files);
}

/// Sets files->vision; a model whose tower is not supported is one for text.
void AddVision(const std::string& folder, const FlatJson& config, std::span<const std::string_view> names,
               ModelFiles* files) {
  auto vision = FindVision(folder, config, names, *files);
  if (!vision.ok()) {
    LogWarning("the model '{}' is used without images: {}", files->plan.spec.name, vision.status().message());
    return;
  }
  files->vision = std::move(*vision);
}

// The packing of a folder's weights, from config.json or the file that ModelOpt writes beside it.
Result<std::optional<PackedFormat>> ReadPacking(const std::string& folder, const FlatJson& config) {
  constexpr std::string_view kModelOptFile = "hf_quant_config.json";
  if (config.Has("quantization_config") || !Has(folder, kModelOptFile)) return ReadQuantizationConfig(config);
  ASSIGN_OR_RETURN(const FlatJson modelopt, FlatJson::ReadFile(fmt::format("{}/{}", folder, kModelOptFile)));
  ASSIGN_OR_RETURN(PackedFormat format, ReadModelOptConfig(modelopt));
  return std::optional(std::move(format));
}

Result<ModelFiles> OpenHuggingFace(const std::string& folder, DraftLayer draft) {
  ASSIGN_OR_RETURN(const FlatJson config, FlatJson::ReadFile(folder + "/config.json"));
  RETURN_IF_ERROR(CheckArchitecture(config));
  ASSIGN_OR_RETURN(const auto packed, ReadPacking(folder, config));
  ASSIGN_OR_RETURN(SafeTensors opened, SafeTensors::OpenFolder(folder));
  const auto file = std::make_shared<const SafeTensors>(std::move(opened));
  ASSIGN_OR_RETURN(JoinedTensors joined, JoinPacked(*file, packed));
  ModelFiles out{.format = ModelFiles::Format::kSafetensors,
                 .tensors = std::move(joined.tensors),
                 .unsupported = std::move(joined.unsupported),
                 .texts = folder,
                 .reader = file};
  std::vector<std::string_view> names;
  for (const FileTensor& tensor : out.tensors) names.push_back(tensor.name);
  ASSIGN_OR_RETURN(out.plan, PlanHuggingFace(config, names, folder, draft));
  RETURN_IF_ERROR(ReadTexts(folder, &out.chat_template, &out.tokenizer));
  AddVision(folder, config, names, &out);
  DropSkipped(out.plan, &out);
  if (packed) DropZeroBiases(out.plan, &out.tensors);
  const bool two_files = Has(folder, "vocab.json") && Has(folder, "merges.txt");
  if (out.tokenizer.tokens.empty() && two_files && HasGpt2Tokenizer(out.plan.spec.architecture)) {
    RETURN_IF_ERROR(ReadTokenizer(folder, &out.tokenizer));
  }
  return out;
}

// For formats without a tokenizer: it must be in one of these folders.
Status FindTokenizer(std::span<const std::string> folders, ModelFiles* files) {
  for (const std::string& folder : folders) {
    const bool own = HasTokenizerFile(folder);
    if (!own && !Has(folder, "vocab.json")) continue;
    for (const std::string_view name : TextFiles()) {
      if (Has(folder, name)) RETURN_IF_ERROR(CheckInside(folder, fmt::format("{}/{}", folder, name)));
    }
    files->texts = folder;
    RETURN_IF_ERROR(ReadTexts(folder, &files->chat_template, &files->tokenizer));
    return own ? Status::Ok() : ReadTokenizer(folder, &files->tokenizer);
  }
  return Status::Ok();
}

Result<ModelFiles> OpenImported(ImportedModel model) {
  const bool trained = model.format == ImportedModel::Format::kMegatron;
  ModelFiles out{.format = trained ? ModelFiles::Format::kMegatron : ModelFiles::Format::kFasterTransformer,
                 .plan = std::move(model.plan),
                 .tensors = std::move(model.tensors),
                 .reader = model.reader};
  RETURN_IF_ERROR(FindTokenizer(model.folders, &out));
  if (!out.texts.empty()) {
    if (!trained) NameTokens(model.start_id, model.end_id, &out.tokenizer);
    return out;
  }
  if (model.vocab.empty() || model.merges.empty()) return out;
  ASSIGN_OR_RETURN(out.tokenizer, ReadGpt2Tokenizer(model.vocab, model.merges));
  return out;
}

}  // namespace

std::span<const std::string_view> TextFiles() {
  static constexpr std::string_view kNames[] = {"tokenizer.json",
                                                "tokenizer_config.json",
                                                "special_tokens_map.json",
                                                "added_tokens.json",
                                                "tokenizer.model",
                                                "spiece.model",
                                                "sentencepiece.model",
                                                "tekken.json",
                                                "vocab.json",
                                                "merges.txt",
                                                "generation_config.json",
                                                "chat_template.jinja"};
  return kNames;
}

Status ReadTexts(const std::string& folder, std::string* chat_template, TokenizerData* tokenizer) {
  ASSIGN_OR_RETURN(*chat_template, ReadChatTemplate(folder));
  return HasTokenizerFile(folder) ? ReadTokenizer(folder, tokenizer) : Status::Ok();
}

Result<ModelFiles> OpenModelFiles(const std::string& path, DraftLayer draft) {
  std::error_code ignored;
  auto imported = ImportModel(path);
  RETURN_IF_ERROR(WithPath(path, imported.status()));
  auto opened = *imported                                      ? OpenImported(*std::move(*imported))
                : std::filesystem::is_directory(path, ignored) ? OpenHuggingFace(path, draft)
                                                               : OpenGguf(path, draft);
  RETURN_IF_ERROR(WithPath(path, opened.status()));
  return opened;
}

}  // namespace ringside
