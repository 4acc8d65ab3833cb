// What a request's head must say beyond what Beast's parser and RequestHead check, and its values as the faces see
// them. Pure functions; any thread.
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

/// Reads the target. Errors are refusals with their published codes.
Result<HttpTarget> CheckHead(const HeadMessage& head);
bool ExpectsContinue(const HeadMessage& head);
/// True if the head has exactly one Sec-WebSocket-Key, and it is 16 bytes in base64.
bool HasSocketKey(const HeadMessage& head);

/// The request without its body. Moves the ticket out of the query, which no handler gets to see, into `ticket`.
HttpRequest MakeRequest(const HeadMessage& head, HttpTarget target, std::string* ticket);
/// What decides about the access of `request`. Refers to its strings and to `ticket`.
AccessRequest MakeAccessRequest(const HeadMessage& head, const HttpRequest& request, std::string_view ticket);

}  // namespace ringside
