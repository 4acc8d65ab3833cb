// Models in formats of other servers and of training: folders of FasterTransformer, checkpoints of Megatron-LM and
// NeMo. They are served directly, without a conversion. Plain data. THREAD: any.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "engine/families/network_plan.h"
#include "engine/files/file_tensor.h"

namespace ringside {

struct ImportedModel {
  enum class Format { kFasterTransformer, kMegatron };

  Format format = Format::kFasterTransformer;
  NetworkPlan plan;
  std::vector<FileTensor> tensors;          // borrowed from `reader`
  std::vector<std::string> folders;         // where the tokenizer may be, in order: these formats have none
  std::optional<int64_t> start_id, end_id;  // BOS and EOS ids; not range-checked
  std::string_view vocab, merges;           // GPT-2's tokenizer files in the checkpoint; empty if there are none
  std::shared_ptr<const void> reader;
};

/// The model at `path`; nullopt if it is in none of these formats. ERRORS: kNotFound, kIo, kInvalidArgument or
/// kCorruption, with the path, for what a reader or a plan rejects.
Result<std::optional<ImportedModel>> ImportModel(const std::string& path);

}  // namespace ringside
