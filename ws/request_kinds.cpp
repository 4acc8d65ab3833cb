#include "ws/request_kinds.h"

#include "ws/chat/chat_routes.h"
#include "ws/openai/conversations.h"
#include "ws/openai/responses/responses.h"
#include "ws/openai/shares.h"
#include "ws/realtime/realtime.h"

namespace ringside {

std::vector<RequestKind> AllRequestKinds() {
  std::vector<RequestKind> kinds;
  for (const auto& face : {ResponseRequestKinds(), ConversationRequestKinds(), ShareRequestKinds(),
                           RealtimeRequestKinds(), ChatRequestKinds()}) {
    kinds.insert(kinds.end(), face.begin(), face.end());
  }
  return kinds;
}

std::string DescribeRequests() {
  std::string text;
  for (const RequestKind& kind : AllRequestKinds()) {
    for (const FieldInfo& field : kind.fields) {
      text += kind.name + '\t' + field.name + '\t' + FieldTypeName(field.type) + '\t' +
              std::string(FieldPolicyName(field.policy)) + '\t' + field.limits + '\t' + field.alias_of + '\n';
    }
  }
  return text;
}

}  // namespace ringside
