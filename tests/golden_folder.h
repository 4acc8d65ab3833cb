// Location of the recorded results that tests compare against.
#pragma once

#include <string>

namespace ringside {

// A file or folder of tests/golden. On a machine that did not build this, RINGSIDE_SOURCE gives the location of the
// sources.
std::string GoldenFolder(const std::string& name);

}  // namespace ringside
