# Read by cpack: metadata of the Debian package. CPACK_RINGSIDE_CUDA is the version of the CUDA toolkit that the
# programs were linked with (13.0), CPACK_RINGSIDE_GPUS the GPU architectures they were compiled for; both are empty
# without a GPU. The two packages contain the same files and conflict with each other.
set(other ringside-cuda)
if(CPACK_RINGSIDE_CUDA)
  set(other ringside)
  set(CPACK_DEBIAN_PACKAGE_NAME ringside-cuda)
  set(CPACK_DEBIAN_PACKAGE_PROVIDES "ringside (= ${CPACK_PACKAGE_VERSION})")
  # Package names in NVIDIA's repositories for Debian and Ubuntu. A container gets the driver from its host.
  string(REPLACE "." "-" release ${CPACK_RINGSIDE_CUDA})
  string(APPEND CPACK_DEBIAN_PACKAGE_DEPENDS ", cuda-cudart-${release}, libcublas-${release}")
  set(CPACK_DEBIAN_PACKAGE_RECOMMENDS libcuda1)
  string(APPEND CPACK_PACKAGE_DESCRIPTION_SUMMARY " (CUDA)")
  string(APPEND CPACK_PACKAGE_DESCRIPTION "

It computes on NVIDIA GPUs of compute capability ${CPACK_RINGSIDE_GPUS} with
CUDA ${CPACK_RINGSIDE_CUDA}, from the packages of NVIDIA's repository, or on the CPU.")
endif()
set(CPACK_DEBIAN_PACKAGE_CONFLICTS ${other})
set(CPACK_DEBIAN_PACKAGE_REPLACES ${other})
