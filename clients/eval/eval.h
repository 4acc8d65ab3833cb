// Evaluates a model from outside, from the log probabilities of a prompt (`echo` with `logprobs` on /v1/completions);
// works with any server that returns them. Blocking.
#pragma once

#include <string>

#include "clients/wire/server_access.h"

namespace ringside::client {

struct EvalOptions {
  enum class Task {
    kPerplexity,  // of a text, in windows of `context` tokens that advance by `stride`
    kLastWord,    // of passages, as in LAMBADA
    kChoices,     // of questions, the likeliest answer
  };
  Task task = Task::kPerplexity;
  std::string path;                // the text file, or JSON lines
  std::string model;               // model to request; "" = the server's first
  std::string prefix = {};         // text before every window, passage and question
  int context = 1024, stride = 0;  // 0 = half of context
  int limit = 0;                   // number of windows, passages or questions; 0 = all
  int in_flight = 4;               // concurrent requests
  bool json = false;
};

/// Prints the figures with their standard errors, and progress on a terminal. Returns the exit status: 0, or 1 with a
/// message on standard error; one failed request fails the run.
int Evaluate(const ServerAccess& server, const EvalOptions& options);

}  // namespace ringside::client
