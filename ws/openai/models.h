// The list of models: /v1/models, which is also llama.cpp's /models, and /v1/models/{id}, each with its adapters and
// aliases; and LM Studio's /api/v0/models, without them.
// THREAD: any.
#pragma once

#include "ws/content/served_model.h"
#include "ws/transport/http/http.h"

namespace ringside {

/// One constant model.
void AddModelRoutes(Router& router, const ServedModel& model);
/// The models that `list` returns at each request, in its order.
void AddModelRoutes(Router& router, const ListServedModels& list);

}  // namespace ringside
