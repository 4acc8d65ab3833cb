// Faults that are built in on purpose, to see that some test notices each of them: tests/defects/run.py names them and
// the tests. In every other build a defect is the constant false and nothing of it is left.
#pragma once

#ifdef RINGSIDE_DEFECTS
#include <cstdlib>
#include <string_view>

namespace ringside {

/// True in a process that was started with this name in RINGSIDE_DEFECT.
inline bool DefectIsOn(std::string_view name) {
  const char* wanted = std::getenv("RINGSIDE_DEFECT");
  return wanted != nullptr && name == wanted;
}

}  // namespace ringside

#define RINGSIDE_DEFECT(name) ::ringside::DefectIsOn(name)
#else
#define RINGSIDE_DEFECT(name) false
#endif
