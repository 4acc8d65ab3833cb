// Marks functions of headers that host and device code share.
#pragma once

#ifdef __CUDACC__
#define RINGSIDE_HOST_DEVICE __host__ __device__
/// In front of a template that calls what it is given, on either side.
#define RINGSIDE_CALLS_EITHER _Pragma("nv_exec_check_disable")
#else
#define RINGSIDE_HOST_DEVICE
#define RINGSIDE_CALLS_EITHER
#endif
