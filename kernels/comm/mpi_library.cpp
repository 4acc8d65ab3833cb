#include "kernels/comm/mpi_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

namespace ringside {
namespace {

constexpr const char* kName = "libmpi.so.40";  // Open MPI 3 to 5

/// Looks up symbols, and remembers the first one that is missing.
struct Symbols {
  void* library;
  const char* missing = nullptr;

  template <class Pointer>
  void Find(const char* name, Pointer& pointer) {
    pointer = reinterpret_cast<Pointer>(dlsym(library, name));
    if (pointer == nullptr && missing == nullptr) missing = name;
  }
};

}  // namespace

Result<MpiLibrary> MpiLibrary::Load() {
  void* library = dlopen(kName, RTLD_NOW | RTLD_GLOBAL);  // global: its plug-ins need its symbols
  if (library == nullptr) {
    return Unavailable(
        fmt::format("several processes were started together, but Open MPI cannot be loaded: {}; "
                    "install libopenmpi3",
                    dlerror()));
  }
  MpiLibrary mpi;
  Symbols symbols{library};
  symbols.Find("MPI_Allgather", mpi.Allgather);
  symbols.Find("MPI_Barrier", mpi.Barrier);
  symbols.Find("MPI_Comm_rank", mpi.CommRank);
  symbols.Find("MPI_Comm_set_errhandler", mpi.CommSetErrhandler);
  symbols.Find("MPI_Comm_size", mpi.CommSize);
  symbols.Find("MPI_Comm_split_type", mpi.CommSplitType);
  symbols.Find("MPI_Finalize", mpi.Finalize);
  symbols.Find("MPI_Init_thread", mpi.InitThread);
  symbols.Find("MPI_Iprobe", mpi.Iprobe);
  symbols.Find("MPI_Irecv", mpi.Irecv);
  symbols.Find("MPI_Isend", mpi.Isend);
  symbols.Find("MPI_Recv", mpi.Recv);
  symbols.Find("MPI_Test", mpi.Test);
  symbols.Find("ompi_mpi_comm_world", mpi.world);
  symbols.Find("ompi_mpi_byte", mpi.byte);
  symbols.Find("ompi_mpi_errors_return", mpi.errors_return);
  symbols.Find("ompi_mpi_info_null", mpi.info_null);
  if (symbols.missing != nullptr) {
    return Unavailable(fmt::format("{} has no {}: another MPI than Open MPI?", kName, symbols.missing));
  }
  return mpi;
}

}  // namespace ringside
