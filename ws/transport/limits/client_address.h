// Names under which clients without a key are counted. Pure functions.
// THREAD: any.
#pragma once

#include <boost/asio/ip/address.hpp>
#include <string>

namespace ringside {

/// The IPv4 address as text, also for IPv4-mapped IPv6; for other IPv6 addresses the /64 network, which belongs to one
/// site.
std::string ClientAddress(const boost::asio::ip::address& address);

}  // namespace ringside
