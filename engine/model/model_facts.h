// A model's files as their headers describe it: whether they load, and their needs. Reads no weights. THREAD: any.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "engine/families/model_spec.h"
#include "engine/model/network.h"
#include "engine/model/weights/model_files.h"

namespace ringside {

class Backend;

/// As OpenModelFiles, with every check of Model::Load that needs no weights. ERRORS: as Model::Load, with the path.
Result<ModelFiles> OpenCheckedFiles(const std::string& path, const Backend& backend,
                                    DraftLayer draft = DraftLayer::kSkip);

/// ERRORS: kInvalidArgument, with path and numbers, if the tokenizer has more tokens than the network.
Status CheckTokenizer(const std::string& path, const TokenizerData& tokenizer, const ModelSpec& spec);

/// The shape on one device, without branches and adapters.
NetworkShape ShapeOf(const ModelSpec& spec);

struct ModelFacts {
  ModelSpec spec;
  int64_t weight_bytes = 0;  // of all weights, as stored
  // Of the weights that one token reads: no unused experts, no embedding table, but the draft layer if it is planned.
  int64_t token_bytes = 0;
};

/// ERRORS: as OpenCheckedFiles.
Result<ModelFacts> ReadModelFacts(const std::string& path, const Backend& backend,
                                  DraftLayer draft = DraftLayer::kSkip);

}  // namespace ringside
