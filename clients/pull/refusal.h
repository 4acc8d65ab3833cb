// Sentences for the HTTP statuses with which a model server refuses a request. Pure. THREAD: any.
#pragma once

#include <string>

namespace ringside::client {

/// `what` is the refused model; `token` whether HF_TOKEN was sent, on Hugging Face's hub.
std::string DescribeRefusal(int status, const std::string& host, const std::string& what, bool on_hub, bool token);

/// Statuses that a retry may change: too many requests, a server in trouble.
bool IsTemporary(int status);

}  // namespace ringside::client
