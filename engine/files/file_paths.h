// Paths of model files: links that leave a folder, and errors that name a path. THREAD: any.
#pragma once

#include <string>

#include "base/status.h"

namespace ringside {

/// ERRORS: kInvalidArgument, with the name, if `file` is a link to a place outside `folder`: a model folder must not be
/// able to expose other files of this machine.
Status CheckInside(const std::string& folder, const std::string& file);

/// `status` with the path in front of its message, unless it is there already.
Status WithPath(const std::string& path, const Status& status);

}  // namespace ringside
