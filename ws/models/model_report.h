// The list of a folder's models with their states, for /v1/models and its equivalents. THREAD: any.
#pragma once

#include <vector>

#include "ws/content/served_model.h"

namespace ringside {

class ModelList;
class ModelPool;
class ModelTexts;

/// All models in the folder, also those that cannot be loaded: the default one, the others by name; and models whose
/// files are gone, while they are loaded. Limits of a model whose text was not read yet are those of its file: its
/// trained context.
std::vector<ServedModel> ListPooledModels(ModelList& list, const ModelTexts& texts, const ModelPool& pool,
                                          double created_s);

}  // namespace ringside
