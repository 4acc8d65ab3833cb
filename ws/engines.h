// The server's engines, for whoever looks after its devices: GET /v1/engines, POST /v1/engines/{id}/drain and
// .../resume, for keys with the scope admin. Any thread.
#pragma once

#include "ws/transport/http/http.h"

namespace ringside {

class EngineFleet;

/// `engines` outlives the router.
void AddEngineRoutes(Router& router, EngineFleet& engines);

}  // namespace ringside
