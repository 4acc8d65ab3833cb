// One WebSocket: carries messages between a peer and a protocol face. Lives in its own pending operations; everything
// runs on its strand, and what others want written goes through its Outbox.
#pragma once

#include <boost/beast/http/message.hpp>
#include <boost/beast/http/string_body.hpp>
#include <string>

#include "ws/transport/net_stream.h"
#include "ws/transport/server_context.h"

namespace ringside {

using UpgradeRequest = boost::beast::http::request<boost::beast::http::string_body>;

/// Accepts the upgrade (everything about it has been checked) and serves the face that `route` makes of `asked`, which
/// is `request` as a value. `request_id` goes into the answer. `context` outlives the connection.
void StartConnection(NetStream stream, ConnectionTicket ticket, ServerContext& context, const UpgradeRequest& request,
                     const SocketRoute& route, HttpRequest asked, std::string request_id);

}  // namespace ringside
