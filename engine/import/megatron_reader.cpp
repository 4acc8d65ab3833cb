#include "engine/import/megatron_reader.h"

#include <fmt/format.h>

#include <charconv>
#include <filesystem>
#include <functional>

#include "engine/files/file_paths.h"
#include "engine/files/mapped_file.h"
#include "engine/import/archive_reader.h"

namespace ringside {
namespace {

namespace fs = std::filesystem;
using Bytes = std::span<const std::byte>;

constexpr size_t kMaxSettingsBytes = 1 << 20;
constexpr int kMaxRanks = 1024;
constexpr std::string_view kConfig = "model_config.yaml", kWeights = "model_weights.ckpt";

bool Exists(const std::string& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

std::string RankFile(int rank, std::string_view name) { return fmt::format("mp_rank_{:02}/{}", rank, name); }
constexpr std::string_view kRankWeights = "model_optim_rng.pt";

// The folder of the ranks: this one, or that of the iteration named by the tracker file.
std::string RanksFolder(const std::string& path) {
  const std::string tracker = path + "/latest_checkpointed_iteration.txt";
  if (Exists(path + "/" + RankFile(0, kRankWeights)) || !Exists(tracker)) return path;
  const auto file = MappedFile::Open(tracker);
  if (!file.ok()) return path;
  std::string text(reinterpret_cast<const char*>((*file)->bytes().data()),
                   std::min<size_t>((*file)->bytes().size(), 32));
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  if (text == "release") return path + "/release";
  int iteration = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), iteration);
  return error == std::errc() && end == text.data() + text.size() ? fmt::format("{}/iter_{:07}", path, iteration)
                                                                  : path;
}

TorchFile::Value Scalar(std::string_view text) {
  const auto whole = [&](auto* value) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
    return error == std::errc() && end == text.data() + text.size();
  };
  int64_t number = 0;
  double real = 0;
  if (text == "true" || text == "false") return text == "true";
  if (whole(&number)) return number;
  if (whole(&real)) return real;
  if (text.size() >= 2 && (text.front() == '\'' || text.front() == '"') && text.back() == text.front()) {
    text = text.substr(1, text.size() - 2);
  }
  return std::string(text);
}

// The scalar values at a YAML file's top level; nested values are indented and skipped.
MegatronCheckpoint::Settings OutermostValues(std::string_view text) {
  MegatronCheckpoint::Settings out;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    const size_t colon = line.find(": ");
    if (line.empty() || line.front() == ' ' || line.front() == '-' || line.front() == '#') continue;
    if (colon == std::string_view::npos || line.substr(colon + 2) == "null") continue;
    out.emplace(line.substr(0, colon), Scalar(line.substr(colon + 2)));
  }
  return out;
}

}  // namespace

bool MegatronCheckpoint::Is(const std::string& path) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return path.ends_with(".nemo");
  return Exists(fmt::format("{}/{}", path, kConfig)) || Exists(RanksFolder(path) + "/" + RankFile(0, kRankWeights));
}

Status MegatronCheckpoint::AddRank(Bytes archive, const std::string& source) {
  ASSIGN_OR_RETURN(const TorchFile file, TorchFile::Read(archive, source));
  auto& rank = ranks_.emplace_back();
  constexpr std::string_view kArguments = "args.";
  for (const auto& [name, value] : file.values()) {
    if (const auto* tensor = std::get_if<FileTensor>(&value)) {
      if (name.starts_with("model.")) rank.emplace(name, *tensor);
    } else if (name.starts_with(kArguments)) {
      settings_.emplace(name.substr(kArguments.size()), value);
    } else if (name == "checkpoint_version") {
      const auto* number = std::get_if<int64_t>(&value);
      const auto* real = std::get_if<double>(&value);
      version_ = number != nullptr ? static_cast<double>(*number) : real != nullptr ? *real : -1;
    }
  }
  return Status::Ok();
}

Result<MegatronCheckpoint> MegatronCheckpoint::Open(const std::string& path) {
  MegatronCheckpoint out;
  std::error_code ignored;
  const bool archive = !fs::is_directory(path, ignored);
  out.path_ = archive ? path : RanksFolder(path);
  ArchiveMembers members;
  if (archive) {
    ASSIGN_OR_RETURN(auto file, MappedFile::Open(path));
    ASSIGN_OR_RETURN(members, ReadTar(file->bytes(), path));
    out.files_.push_back(std::move(file));
    for (const auto& [name, bytes] : members) {
      const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      if (name.ends_with("vocab.json")) out.vocab_ = text;
      if (name.ends_with("merges.txt")) out.merges_ = text;
    }
  }
  const auto find = [&](const std::string& name) -> Result<Bytes> {
    const std::string file_path = out.path_ + "/" + name;
    if (archive) {
      const auto found = members.find(name);
      return found == members.end() ? Result<Bytes>(NotFound(file_path + " is missing")) : Result<Bytes>(found->second);
    }
    if (!Exists(file_path)) return NotFound(file_path + " is missing");
    RETURN_IF_ERROR(CheckInside(path, file_path));
    ASSIGN_OR_RETURN(auto file, MappedFile::Open(file_path));
    out.files_.push_back(file);
    return file->bytes();
  };
  const bool nemo = archive || Exists(fmt::format("{}/{}", path, kConfig));
  if (!nemo) out.version_ = 0;  // default for a file without a version
  if (nemo) {
    ASSIGN_OR_RETURN(const Bytes config, find(std::string(kConfig)));
    if (config.size() > kMaxSettingsBytes) return Corruption(fmt::format("{}/{}: too long", out.path_, kConfig));
    out.settings_ = OutermostValues({reinterpret_cast<const char*>(config.data()), config.size()});
  }
  std::string name(nemo ? kWeights : kRankWeights);
  const bool one = nemo && find(name).ok();
  for (int rank = 0; rank < kMaxRanks; ++rank) {
    const std::string file = one ? name : RankFile(rank, name);
    const Result<Bytes> bytes = find(file);
    if (!bytes.ok() && bytes.status().code() == StatusCode::kNotFound && rank > 0) break;
    RETURN_IF_ERROR(bytes.status());
    RETURN_IF_ERROR(out.AddRank(*bytes, out.path_ + "/" + file));
    if (one) break;
  }
  if (out.settings_.empty()) return Corruption(out.path_ + ": contains no model settings");
  return out;
}

}  // namespace ringside
