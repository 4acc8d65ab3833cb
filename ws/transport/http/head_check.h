// Checks of a request's head beyond Beast's parser and RequestHead, and conversion to the faces' types. Pure functions.
// THREAD: any.
#pragma once

#include <boost/beast/http/message.hpp>
#include <boost/beast/http/string_body.hpp>
#include <string>
#include <string_view>

#include "base/status.h"
#include "ws/transport/auth.h"
#include "ws/transport/http/http.h"
#include "ws/transport/http/http_text.h"

namespace ringside {

using HeadMessage = boost::beast::http::request<boost::beast::http::string_body>;

std::string_view View(boost::beast::string_view text);

/// Parses the target.
/// ERRORS: refusals with their published codes.
Result<HttpTarget> CheckHead(const HeadMessage& head);
bool ExpectsContinue(const HeadMessage& head);
/// True if the head has exactly one Sec-WebSocket-Key that is 16 bytes in base64.
bool HasSocketKey(const HeadMessage& head);

/// Returns the request without its body. Moves the ticket from the query into `ticket`, so that no handler sees it.
HttpRequest MakeRequest(const HeadMessage& head, HttpTarget target, std::string* ticket);
/// Returns the parts of `request` that decide its access. The result refers to its strings and to `ticket`.
AccessRequest MakeAccessRequest(const HeadMessage& head, const HttpRequest& request, std::string_view ticket);

}  // namespace ringside
