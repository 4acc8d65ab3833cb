// Answers of an HTTP connection itself, without a route or where one throws. Any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/status.h"
#include "ws/transport/http/http.h"
#include "ws/transport/limits/connection_places.h"
#include "ws/transport/server.h"

namespace ringside {

Status TooLarge();
Status HeadersTooLarge();
Status TooManyBodies();
Status TooManyAnswers();
Status OutOfMemory();
Status BadRequest(std::string why);
/// Ok for kTaken.
Status AdmissionStatus(ConnectionPlaces::Verdict verdict);

/// Random retry delay in milliseconds, so that clients that were refused together, for instance after a restart, do not
/// return together.
int64_t ScatteredRetryMs();

HttpResponse PreflightAnswer();
HttpResponse UnauthorizedAnswer(const Status& why);
HttpResponse RevokedAnswer();
HttpResponse StoppingAnswer();

/// The answer that `make` returns, or the refusal of what it throws.
HttpResponse AnswerOrRefuse(const HttpRequest& request, const std::function<HttpResponse()>& make);
/// As `route.admit`; kIo if it throws.
Status AdmitSocket(const SocketRoute& route, const HttpRequest& request);

}  // namespace ringside
