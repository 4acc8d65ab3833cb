# Packs a build's programs into a folder that runs on another machine: bin/, lib/ with the shared libraries that such a
# machine may lack, and the tests' data. The programs search $ORIGIN/../lib (set at link time); the C and C++ runtime,
# the driver and CUDA are expected on the machine.
#   cmake -DBIN=build/cuda/bin -DTO=build/cuda/bundle -DSOURCE=. "-DPROGRAMS=ringside-server;ringside" -P scripts/bundle.cmake
file(REMOVE_RECURSE ${TO})
file(MAKE_DIRECTORY ${TO}/bin ${TO}/lib)
set(executables)
foreach(program ${PROGRAMS})
  if(EXISTS ${BIN}/${program})
    file(COPY ${BIN}/${program} DESTINATION ${TO}/bin)
    execute_process(COMMAND strip ${TO}/bin/${program})
    list(APPEND executables ${TO}/bin/${program})
  endif()
endforeach()
foreach(library ${LIBRARIES})
  if(EXISTS ${BIN}/${library})
    file(COPY ${BIN}/${library} DESTINATION ${TO}/bin)
  endif()
endforeach()
file(GET_RUNTIME_DEPENDENCIES EXECUTABLES ${executables} RESOLVED_DEPENDENCIES_VAR libraries
  UNRESOLVED_DEPENDENCIES_VAR missing
  PRE_EXCLUDE_REGEXES "^ld-linux" "^lib(c|m|dl|rt|pthread|resolv|stdc\\+\\+|gcc_s|gomp)\\.so" "^libcu" "^libnv" "^libnccl" "^libmpi")
foreach(library ${libraries})
  # Under the name that programs request, whatever file it links to.
  file(COPY ${library} DESTINATION ${TO}/lib FOLLOW_SYMLINK_CHAIN)
endforeach()
foreach(path scripts/gpu_suite tests/golden tests/system/tiny_model.py tools/bench/make_random_model.py
        tools/bench/gpu/torch_step_bench.py tools/bench/gpu/torch_ranks_bench.py tools/bench/gpu/measure_ranks.py)
  get_filename_component(folder ${path} DIRECTORY)
  file(COPY ${SOURCE}/${path} DESTINATION ${TO}/${folder})
endforeach()
list(LENGTH libraries count)
message(STATUS "${TO}: ${count} libraries")
if(missing)
  message(WARNING "libraries not found: ${missing}")
endif()
