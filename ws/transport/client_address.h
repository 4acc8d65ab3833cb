// The names under which clients without a key are counted. Pure functions; any thread.
#pragma once

#include <boost/asio/ip/address.hpp>
#include <string>

namespace ringside {

/// An IPv4 address as text, also one that IPv6 maps; of IPv6 the network of 64 bits, which is one site's.
std::string ClientAddress(const boost::asio::ip::address& address);

}  // namespace ringside
