// Measures a running server from outside, over the same wire as a chat. Each function prints a table to standard output
// and returns an exit code: 0, or 1 with a sentence on standard error.
#pragma once

#include "clients/cli/options.h"

namespace ringside::client {

/// Time to first token of a short turn on a long conversation, against a fresh conversation that gets everything in one
/// prompt. Alternating, medians and their ratio.
int BenchAppend(const Options& options);
/// Many conversations at once, several turns each, with pauses for thought: TTFT, time between deltas, tokens per
/// second, percentiles of each.
int BenchLoad(const Options& options);

}  // namespace ringside::client
