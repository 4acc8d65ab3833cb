#include "ws/content/served_model.h"

namespace ringside {

ServedModel ServedModelOf(const SessionTableOptions& options, double created_s) {
  return {.name = options.model_name,
          .created = static_cast<int64_t>(created_s),
          .request_len = options.request_len(),
          .sampling = options.sampling,
          .max_output_tokens = options.usual_answer(),
          .adapters = options.adapters,
          .session_len = options.session_len,
          .memory_len = options.memory_len,
          .pinned_max = options.pinned_max,
          .aliases = options.aliases,
          .images = options.images != nullptr};
}

}  // namespace ringside
