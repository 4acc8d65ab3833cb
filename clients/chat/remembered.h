// Client state kept between runs, per server, in the user's state folder: the last conversation, and the ids behind the
// numbers of the last list. If the folder is not writable the state is lost, but the chat works.
#pragma once

#include <string>
#include <vector>

#include "clients/wire/transport/server_url.h"

namespace ringside::client {

/// The conversation used last on this server; "" = none.
std::string LastConversation(const ServerUrl& url);
void RememberLastConversation(const ServerUrl& url, const std::string& id);

/// The ids of this server's last listed conversations; the first is number 1.
std::vector<std::string> ListedConversations(const ServerUrl& url);
void RememberListed(const ServerUrl& url, const std::vector<std::string>& ids);

}  // namespace ringside::client
