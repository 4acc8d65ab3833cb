// The chat page at "/": routes for the files of clients/web. They need no key, because a browser has none before the
// page has loaded; the page's API calls do. Stateless.
// THREAD: any.
#pragma once

#include <string>

#include "ws/transport/server.h"

namespace ringside {

/// "/" is index.html, every other file is "/page/PATH" with its path below clients/web. Files are built in and have an
/// ETag; with a `folder` they are read from there at each request, so that edits show on reload, limited to the
/// built-in names.
void AddPageRoutes(Service& service, const std::string& folder);

}  // namespace ringside
