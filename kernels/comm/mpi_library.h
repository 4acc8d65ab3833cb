// Open MPI, loaded at run time: programs also run on machines without it. mpi_comm.cpp is its only user.
#pragma once

#define OMPI_SKIP_MPICXX  // excludes its deprecated C++ interface
#include <mpi.h>

#include "base/status.h"

namespace ringside {

/// The calls and predefined handles in use. Handles are addresses in the library, so the macros of mpi.h would link it.
struct MpiLibrary {
  /// Loads the library of the ABI that mpi.h describes. It is never unloaded: MPI's own threads may run in it.
  /// ERRORS: kUnavailable if it cannot be loaded or lacks a symbol.
  static Result<MpiLibrary> Load();

  decltype(&MPI_Allgather) Allgather = nullptr;
  decltype(&MPI_Barrier) Barrier = nullptr;
  decltype(&MPI_Comm_rank) CommRank = nullptr;
  decltype(&MPI_Comm_set_errhandler) CommSetErrhandler = nullptr;
  decltype(&MPI_Comm_size) CommSize = nullptr;
  decltype(&MPI_Comm_split_type) CommSplitType = nullptr;
  decltype(&MPI_Finalize) Finalize = nullptr;
  decltype(&MPI_Init_thread) InitThread = nullptr;
  decltype(&MPI_Iprobe) Iprobe = nullptr;
  decltype(&MPI_Irecv) Irecv = nullptr;
  decltype(&MPI_Isend) Isend = nullptr;
  decltype(&MPI_Recv) Recv = nullptr;
  decltype(&MPI_Test) Test = nullptr;

  MPI_Comm world = nullptr;
  MPI_Datatype byte = nullptr;
  MPI_Errhandler errors_return = nullptr;
  MPI_Info info_null = nullptr;
};

}  // namespace ringside
