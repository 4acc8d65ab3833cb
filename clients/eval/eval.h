// Measures how good a model is, from outside: by the log probabilities that a server's completions face gives of a
// prompt (`echo` with `logprobs`), so at any server that gives them. Blocking.
#pragma once

#include <string>

#include "clients/wire/server_access.h"

namespace ringside::client {

struct EvalOptions {
  enum class Task {
    kPerplexity,  // of a text, in windows of `context` tokens, each `stride` further on
    kLastWord,    // of passages, as LAMBADA has them
    kChoices,     // of questions, the likeliest answer
  };
  Task task = Task::kPerplexity;
  std::string path;                // of the text, or of JSON lines
  std::string model;               // to ask for; "" = the server's first
  std::string prefix = {};         // text before every window, passage and question
  int context = 1024, stride = 0;  // 0 = half of it
  int limit = 0;                   // of windows, passages or questions; 0 = all
  int in_flight = 4;               // requests at a time
  bool json = false;
};

/// Prints the figures, each with its standard error, and on a terminal how far it has got. Returns the exit status: 0,
/// or 1 with a sentence on standard error: one request that fails fails it all.
int Evaluate(const ServerAccess& server, const EvalOptions& options);

}  // namespace ringside::client
