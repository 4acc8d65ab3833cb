// Error handling of benchmark programs: prints the error and exits.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "base/status.h"

namespace ringside {

inline void MustBeOk(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  std::exit(1);
}
template <class T>
T MustHave(Result<T> result) {
  MustBeOk(result.status());
  return std::move(*result);
}

}  // namespace ringside
