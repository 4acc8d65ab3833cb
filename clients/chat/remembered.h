// What the client remembers between runs of the conversations of each server, in the user's state folder: the one used
// last, and what the numbers of the last list mean. A folder that cannot be written costs the memory, never the chat.
#pragma once

#include <string>
#include <vector>

#include "clients/wire/server_url.h"

namespace ringside::client {

/// The conversation that was used last on this server; "" = none.
std::string LastConversation(const ServerUrl& url);
void RememberLastConversation(const ServerUrl& url, const std::string& id);

/// The ids of this server's conversations as they were listed last, the first is number 1.
std::vector<std::string> ListedConversations(const ServerUrl& url);
void RememberListed(const ServerUrl& url, const std::vector<std::string>& ids);

}  // namespace ringside::client
