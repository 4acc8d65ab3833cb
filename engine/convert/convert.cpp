#include "engine/convert/convert.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "engine/convert/network_kind.h"
#include "engine/convert/network_values.h"
#include "engine/convert/output_file.h"
#include "engine/convert/tokenizer_writer.h"
#include "engine/convert/writers.h"
#include "engine/files/file_paths.h"
#include "engine/model/weights/weights.h"
#include "engine/sampling/sampling_defaults.h"

namespace ringside {
namespace {

namespace fs = std::filesystem;
using Format = ModelFiles::Format;

// The output while it is being written; removed unless it is renamed to its final name.
class Unfinished {
 public:
  explicit Unfinished(std::string to) : to_(std::move(to)), path_(fmt::format("{}.{}.unfinished", to_, ::getpid())) {}
  ~Unfinished() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  Unfinished(const Unfinished&) = delete;
  Unfinished& operator=(const Unfinished&) = delete;

  const std::string& path() const { return path_; }
  Status Finish() {
    if (::renameat2(AT_FDCWD, path_.c_str(), AT_FDCWD, to_.c_str(), RENAME_NOREPLACE) != 0) {
      return IoError(fmt::format("{}: {}", to_, std::strerror(errno)));
    }
    path_.clear();
    return Status::Ok();
  }

 private:
  const std::string to_;
  std::string path_;
};

DType MatrixType(const ModelFiles& files) {
  std::set<DType> types;
  for (const FileTensor& tensor : files.tensors) {
    if (tensor.shape.size() > 1) types.insert(tensor.data.dtype);
  }
  return types.size() == 1 && !IsQuantized(*types.begin()) ? *types.begin() : DType::kF32;
}

class Job {
 public:
  Job(const ConvertOptions& options, ModelFiles from, SamplingParams sampling)
      : options_(options), from_(std::move(from)), sampling_(std::move(sampling)), values_(from_) {}

  Status Plan(Format format) {
    format_ = format;
    ASSIGN_OR_RETURN(kind_, KindOf(from_));
    ASSIGN_OR_RETURN(plan_, PlanTarget(kind_, format, from_.plan.spec));
    dtype_ = options_.dtype.value_or(MatrixType(from_));
    if (!options_.tokenizer) {
      from_.tokenizer = {};
      from_.chat_template.clear();
      from_.texts.clear();
    }
    return Status::Ok();
  }

  Status Write(const std::string& path) const {
    const Conversion conversion{plan_, values_, dtype_, !options_.dtype, options_.gpus};
    if (format_ == Format::kGguf) return WriteAsGguf(conversion, path);
    std::error_code error;
    if (!fs::create_directory(path, error)) return IoError(fmt::format("{}: {}", path, error.message()));
    RETURN_IF_ERROR(WriteTexts(path));
    const ModelSpec& spec = from_.plan.spec;
    if (format_ == Format::kFasterTransformer) {
      const std::string config = FasterTransformerConfig(kind_, spec, from_.tokenizer, dtype_, options_.gpus);
      RETURN_IF_ERROR(WriteFile(path + "/config.ini", config));
      return WriteFasterTransformer(conversion, path);
    }
    ASSIGN_OR_RETURN(const std::string config, HuggingFaceConfig(kind_, spec, from_.tokenizer, dtype_));
    RETURN_IF_ERROR(WriteFile(path + "/config.json", config));
    return WriteSafetensors(conversion, path);
  }

  /// Checks that a server would find the same model in the output as in the input.
  Status Check(const std::string& path) const {
    ASSIGN_OR_RETURN(const ModelFiles written, OpenModelFiles(path));
    const auto lost = [&](std::string_view what) {
      return InvalidArgument(fmt::format("{}: the target format cannot store the model's {}", options_.from, what));
    };
    if (const std::string trait = DifferentTrait(from_.plan.spec, written.plan.spec); !trait.empty()) {
      return lost(trait);
    }
    RETURN_IF_ERROR(CheckTensors(written.plan, written.tensors, written.unsupported));
    if (!options_.tokenizer) return Status::Ok();
    if (const std::string fact = DifferentTokenizer(from_.tokenizer, written.tokenizer); !fact.empty()) {
      return lost("tokenizer (" + fact + "); without one: --no-tokenizer");
    }
    if (written.chat_template != from_.chat_template) return lost("chat template; without one: --no-tokenizer");
    ASSIGN_OR_RETURN(const SamplingParams sampling, ReadSamplingDefaults(path));
    return SameDefaults(sampling, sampling_) ? Status::Ok() : lost("sampling defaults; without them: --no-tokenizer");
  }

 private:
  static bool SameDefaults(const SamplingParams& a, const SamplingParams& b) {
    return a.temperature == b.temperature && a.top_p == b.top_p && a.top_k == b.top_k && a.min_p == b.min_p &&
           a.repetition_penalty == b.repetition_penalty;
  }

  bool Recommends() const { return options_.tokenizer && !SameDefaults(sampling_, DefaultSampling()); }
  bool HasTokenizer() const { return !from_.tokenizer.tokens.empty(); }

  Status WriteAsGguf(const Conversion& conversion, const std::string& path) const {
    ASSIGN_OR_RETURN(std::vector<GgufEntry> metadata, GgufMetadata(kind_, from_.plan.spec));
    const auto add = [&](std::vector<GgufEntry> more) { metadata.insert(metadata.end(), more.begin(), more.end()); };
    if (Recommends()) add(GgufSampling(sampling_));
    if (HasTokenizer()) {
      ASSIGN_OR_RETURN(const auto tokenizer, GgufTokenizer(from_.tokenizer, from_.chat_template));
      add(tokenizer);
    }
    return WriteGguf(conversion, metadata, path);
  }

  // Copies the text files unchanged if the target format reads them, too.
  Status WriteTexts(const std::string& folder) const {
    std::error_code error;
    const bool same =
        !from_.texts.empty() && (HasTokenizerFile(from_.texts) || format_ == from_.format || !HasTokenizer());
    if (!same) {
      if (!HasTokenizer()) return Status::Ok();
      ASSIGN_OR_RETURN(const auto files,
                       TokenizerFiles(from_.tokenizer, from_.chat_template, Recommends() ? &sampling_ : nullptr));
      for (const auto& [name, text] : files) RETURN_IF_ERROR(WriteFile(folder + "/" + name, text));
      return Status::Ok();
    }
    for (const std::string_view name : TextFiles()) {
      const std::string from = fmt::format("{}/{}", from_.texts, name), to = fmt::format("{}/{}", folder, name);
      if (!fs::exists(from, error)) continue;
      if (!fs::copy_file(from, to, error)) return IoError(fmt::format("{}: {}", to, error.message()));
    }
    return Status::Ok();
  }

  const ConvertOptions& options_;
  ModelFiles from_;
  const SamplingParams sampling_;
  const NetworkValues values_;
  Format format_ = Format::kSafetensors;
  NetworkKind kind_ = NetworkKind::kGpt2;
  NetworkPlan plan_;
  DType dtype_ = DType::kF32;
};

}  // namespace

Status Convert(const ConvertOptions& options) {
  std::string to = options.to;
  while (to.size() > 1 && to.ends_with('/')) to.pop_back();
  std::error_code ignored;
  if (fs::exists(fs::symlink_status(to, ignored))) return InvalidArgument(to + " already exists");
  if (options.gpus < 1) return InvalidArgument("the number of GPUs must be at least 1");
  ASSIGN_OR_RETURN(ModelFiles from, OpenModelFiles(options.from));
  RETURN_IF_ERROR(WithPath(options.from, CheckTensors(from.plan, from.tensors, from.unsupported)));
  ASSIGN_OR_RETURN(const SamplingParams sampling, ReadSamplingDefaults(options.from));
  Job job(options, std::move(from), sampling);
  const Format usual = to.ends_with(".gguf") ? Format::kGguf
                       : options.gpus > 1    ? Format::kFasterTransformer
                                             : Format::kSafetensors;
  const Format format = options.format.value_or(usual);
  if (options.gpus > 1 && format != Format::kFasterTransformer) {
    return InvalidArgument("a number of GPUs applies to FasterTransformer folders only");
  }
  RETURN_IF_ERROR(WithPath(options.from, job.Plan(format)));
  Unfinished unfinished(to);
  try {
    RETURN_IF_ERROR(WithPath(options.from, job.Write(unfinished.path())));
  } catch (const nlohmann::json::exception& error) {  // names that are not UTF-8
    return InvalidArgument(fmt::format("{}: {}", options.from, error.what()));
  }
  RETURN_IF_ERROR(job.Check(unfinished.path()));
  return unfinished.Finish();
}

}  // namespace ringside
