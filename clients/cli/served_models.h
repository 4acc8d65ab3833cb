// `ringside models --server`, `ringside load` and `ringside unload`: the models of a running server. Blocking.
#pragma once

#include <string>
#include <vector>

#include "clients/cli/options.h"
#include "clients/wire/models.h"

namespace ringside::client {

/// The table of the list. Pure.
std::string ServedModelTable(const std::vector<ServedModel>& models);

/// Prints the server's models with their states. Returns the exit status: 0, or 1 with a message on standard error.
int ListServedModels(const ServerAccess& server, bool json);
/// Loads or unloads a model of --models-dir, and waits for the end of that. Returns the exit status as above.
int ChangeServedModel(const ServerAccess& server, const std::string& model, bool load);

}  // namespace ringside::client
