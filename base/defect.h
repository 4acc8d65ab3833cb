// Faults planted on purpose to prove that a test catches each one: tests/defects/run.py lists them with their tests. In
// any other build a defect is the constant false and compiles to nothing.
#pragma once

#ifdef RINGSIDE_DEFECTS
#include <cstdlib>
#include <string_view>

namespace ringside {

/// True if the process was started with RINGSIDE_TEST_DEFECT=`name`.
inline bool DefectIsOn(std::string_view name) {
  const char* wanted = std::getenv("RINGSIDE_TEST_DEFECT");
  return wanted != nullptr && name == wanted;
}

}  // namespace ringside

#define RINGSIDE_DEFECT(name) ::ringside::DefectIsOn(name)
#else
#define RINGSIDE_DEFECT(name) false
#endif
