// The parts of an IoRuntime, for files that do network I/O. Included only by .cpp files of clients/wire.
#pragma once

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <thread>

#include "clients/wire/transport/io_runtime.h"

namespace ringside::client {

struct IoRuntime::Impl {
  boost::asio::io_context context{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> guard{context.get_executor()};
  std::thread thread{[this] { context.run(); }};
};

}  // namespace ringside::client
