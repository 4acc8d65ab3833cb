// What an HTTP connection answers by itself, without a route. Pure functions but ScatteredRetryMs; any thread.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "ws/transport/connection_places.h"
#include "ws/transport/http/http.h"

namespace ringside {

Status TooLarge();
Status HeadersTooLarge();
Status TooManyBodies();
Status TooManyAnswers();
Status OutOfMemory();
Status BadRequest(std::string why);
/// Ok for kTaken.
Status AdmissionStatus(ConnectionPlaces::Verdict verdict);

/// Milliseconds, another number at each call: those who come all at once, after a restart perhaps, shall not come back
/// all at once.
int64_t ScatteredRetryMs();

HttpResponse PreflightAnswer();
HttpResponse UnauthorizedAnswer(const Status& why);
HttpResponse RevokedAnswer();
HttpResponse StoppingAnswer();

}  // namespace ringside
