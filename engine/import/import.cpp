#include "engine/import/import.h"

#include <filesystem>
#include <utility>

#include "engine/files/file_paths.h"
#include "engine/import/faster_transformer_plan.h"
#include "engine/import/megatron_plan.h"

namespace ringside {
namespace {

// The tokenizer is next to the weights, or in the parent folder, which is shared by all GPU counts.
Result<std::optional<ImportedModel>> ImportFasterTransformer(const std::string& path) {
  ASSIGN_OR_RETURN(FasterTransformerFolder opened, FasterTransformerFolder::Open(path));
  const auto folder = std::make_shared<const FasterTransformerFolder>(std::move(opened));
  auto plan = PlanFasterTransformer(*folder);
  RETURN_IF_ERROR(WithPath(folder->path(), plan.status()));
  return std::optional(ImportedModel{.format = ImportedModel::Format::kFasterTransformer,
                                     .plan = std::move(plan->network),
                                     .tensors = std::move(plan->tensors),
                                     .folders = {folder->path(), folder->path() + "/.."},
                                     .start_id = plan->start_id,
                                     .end_id = plan->end_id,
                                     .reader = folder});
}

Result<std::optional<ImportedModel>> ImportMegatron(const std::string& path) {
  ASSIGN_OR_RETURN(MegatronCheckpoint opened, MegatronCheckpoint::Open(path));
  const auto checkpoint = std::make_shared<const MegatronCheckpoint>(std::move(opened));
  auto plan = PlanMegatron(*checkpoint);
  RETURN_IF_ERROR(WithPath(checkpoint->path(), plan.status()));
  std::error_code ignored;
  const bool folder = std::filesystem::is_directory(path, ignored);
  const std::string beside = std::filesystem::path(path).parent_path().string();
  return std::optional(ImportedModel{.format = ImportedModel::Format::kMegatron,
                                     .plan = std::move(plan->network),
                                     .tensors = std::move(plan->tensors),
                                     .folders = {folder           ? path
                                                 : beside.empty() ? "."
                                                                  : beside},
                                     .vocab = checkpoint->vocab(),
                                     .merges = checkpoint->merges(),
                                     .reader = checkpoint});
}

}  // namespace

Result<std::optional<ImportedModel>> ImportModel(const std::string& path) {
  if (MegatronCheckpoint::Is(path)) return ImportMegatron(path);
  if (FasterTransformerFolder::Find(path)) return ImportFasterTransformer(path);
  return std::optional<ImportedModel>();
}

}  // namespace ringside
