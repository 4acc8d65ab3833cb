// Chooses one of several GGUF models by its quantisation. Pure. THREAD: any.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/model_files/gguf_groups.h"
#include "clients/wire/outcome.h"

namespace ringside::client {

/// The model of this quantisation, without regard to case; if it is empty, the one that suits most machines (Q4_K_M if
/// there is one). Fails with a sentence that lists the choices.
Outcome<GgufModel> ChooseGguf(std::span<const GgufModel> models, std::string_view quantisation);

}  // namespace ringside::client
