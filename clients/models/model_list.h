// `ringside models`: the models on this machine, whether they load, the memory they need and the speed to expect.
#pragma once

#include <string>
#include <vector>

#include "clients/models/inspection.h"
#include "clients/models/local_models.h"

namespace ringside::client {

/// Prints a table or, for programs, JSON. Returns the exit code.
int ListModels(bool json);

/// The table; `memory_rate` in bytes per second, 0 = not measured. REQUIRES: one inspection per model.
std::string ModelTable(const std::vector<LocalModel>& models, const std::vector<Inspection>& inspections,
                       double memory_rate);

/// "98 MB", "2.5 GB", in powers of ten as file managers and model pages count.
std::string DescribeBytes(uint64_t bytes);

}  // namespace ringside::client
