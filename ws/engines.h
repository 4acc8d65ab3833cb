// Engine administration: GET /v1/engines, POST /v1/engines/{id}/drain and .../resume, scope admin.
// THREAD: any.
#pragma once

#include "ws/transport/http/http.h"

namespace ringside {

class EngineFleet;

/// REQUIRES: `engines` outlives the router.
void AddEngineRoutes(Router& router, EngineFleet& engines);

}  // namespace ringside
