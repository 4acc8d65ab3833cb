// What an HTTP connection answers by itself, without a route. Pure functions but ScatteredRetryMs; any thread.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "ws/transport/http/http.h"

namespace ringside {

Status TooLarge();
Status HeadersTooLarge();
Status TooManyBodies();
Status OutOfMemory();
Status BadRequest(std::string why);

/// Milliseconds, another number at each call: those who come all at once, after a restart perhaps, shall not come back
/// all at once.
int64_t ScatteredRetryMs();

HttpResponse PreflightAnswer();
HttpResponse RevokedAnswer();
HttpResponse StoppingAnswer();

}  // namespace ringside
