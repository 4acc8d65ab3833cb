// The program `ringside-convert`.
#include <cstdio>
#include <exception>

#include "tools/convert/convert_command.h"

int main(int argc, char** argv) {
  try {
    return ringside::PrintOutcome(ringside::RunConvertCommand({argv + 1, argv + argc}));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ringside-convert: %s\n", error.what());
    return ringside::kCommandFailed;
  }
}
