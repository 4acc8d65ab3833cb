// Marks functions of headers that host and device code share.
#pragma once

#ifdef __CUDACC__
#define RINGSIDE_HOST_DEVICE __host__ __device__
#else
#define RINGSIDE_HOST_DEVICE
#endif
