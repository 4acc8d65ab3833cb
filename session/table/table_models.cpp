// The model of a turn.
#include "session/table/table_state.h"

namespace ringside {

std::shared_ptr<Session> SessionTable::State::SessionOf(const Caller& caller, const std::string& conversation,
                                                        const std::string& previous_response_id) {
  if (!conversation.empty()) {
    const auto found = Find(caller, conversation);
    return found.ok() ? *found : nullptr;
  }
  if (previous_response_id.empty()) return nullptr;
  const auto found = FindResponse(caller, previous_response_id);
  return found.ok() ? found->session : nullptr;
}

Result<std::shared_ptr<const SessionContext>> SessionTable::State::ChooseModel(const Caller& caller, TurnSpec* spec) {
  if (context->options.models == nullptr) {
    spec->model.clear();
    return context;
  }
  const auto session = SessionOf(caller, spec->conversation, spec->previous_response_id);
  ASSIGN_OR_RETURN(auto chosen, models.Choose(session != nullptr ? session->window().model : "", spec->model));
  spec->model = spec->window.model = chosen->options.model_name;
  if (session != nullptr) session->UseModel(chosen);
  return chosen;
}

Result<const SessionTableOptions*> SessionTable::OptionsFor(const Caller& caller, std::string_view model,
                                                            const std::string& conversation,
                                                            const std::string& previous_response_id) {
  if (options().models == nullptr) return &options();
  const auto session = state_->SessionOf(caller, conversation, previous_response_id);
  const std::string own = session != nullptr ? session->window().model : "";
  // A turn that names another model is refused when it starts.
  ASSIGN_OR_RETURN(const auto chosen, state_->models.Open(own.empty() ? model : own));
  return &chosen->options;
}

}  // namespace ringside
