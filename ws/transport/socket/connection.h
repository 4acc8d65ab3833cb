// One WebSocket: carries messages between a peer and a protocol face. Kept alive by its pending operations. Everything
// runs on its strand; other threads write through its Outbox.
#pragma once

#include <boost/beast/http/message.hpp>
#include <boost/beast/http/string_body.hpp>
#include <string>

#include "ws/transport/net_stream.h"
#include "ws/transport/server_context.h"

namespace ringside {

using UpgradeRequest = boost::beast::http::request<boost::beast::http::string_body>;

/// Accepts the upgrade and serves the face that `route` creates for `asked`, the parsed form of `request`. `request_id`
/// is part of the response.
/// REQUIRES: the upgrade has passed all checks; `context` outlives the connection.
void StartConnection(NetStream stream, ConnectionTicket ticket, ServerContext& context, const UpgradeRequest& request,
                     const SocketRoute& route, HttpRequest asked, std::string request_id);

}  // namespace ringside
