// Marks functions in headers shared by host and device code.
#pragma once

#ifdef __CUDACC__
#define RINGSIDE_HOST_DEVICE __host__ __device__
/// Precedes a template that calls a functor passed to it, on either side.
#define RINGSIDE_CALLS_EITHER _Pragma("nv_exec_check_disable")
#else
#define RINGSIDE_HOST_DEVICE
#define RINGSIDE_CALLS_EITHER
#endif
