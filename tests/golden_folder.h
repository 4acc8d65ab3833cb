// Where the recorded results are that tests compare with.
#pragma once

#include <string>

namespace ringside {

/// A file or folder of tests/golden. In the sources, which lie elsewhere where RINGSIDE_SOURCE says so: on a machine that
/// did not build this.
std::string GoldenFolder(const std::string& name);

}  // namespace ringside
