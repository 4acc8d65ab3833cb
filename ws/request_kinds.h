// The reference of request fields: every kind of request that the server takes, from the tables that read them. Pure.
#pragma once

#include <string>
#include <vector>

#include "ws/fields/field_info.h"

namespace ringside {

/// Every kind of request that has fields, of all faces.
std::vector<RequestKind> AllRequestKinds();
/// A line for each field: kind, name, types, policy, limits and the name that it is an alias of, separated by tabs.
/// What `ringside-server --describe-requests` prints.
std::string DescribeRequests();

}  // namespace ringside
