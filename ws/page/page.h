// The chat page at "/": routes for the files of clients/web. They need no key, since a browser cannot show one before
// the page is there; what the page then asks for does. Stateless; any thread.
#pragma once

#include <string>

#include "ws/transport/server.h"

namespace ringside {

/// "/" is index.html, every other file is "/page/NAME". From the program itself, with an ETag; with a `folder`, read
/// from there at each request, so that a change shows on reload: only files whose names the program knows.
void AddPageRoutes(Service& service, const std::string& folder);

}  // namespace ringside
