# The programs of the wheel: the objects of the others, linked with archives and for an old glibc, so that they run on
# other systems. `scripts/wheel` builds them.
add_library(ringside_glibc_floor OBJECT EXCLUDE_FROM_ALL wheel/glibc_floor.c)
target_compile_options(ringside_glibc_floor PRIVATE -O2)
# Parts of libc since 2.34.
find_library(OLD_PTHREAD libpthread.so.0)
find_library(OLD_DL libdl.so.2)
if(NOT OLD_PTHREAD OR NOT OLD_DL)
  return()
endif()

add_custom_target(wheel_programs DEPENDS manual)
foreach(program ${programs} ringside-image-decoder)
  get_target_property(libraries ${program} LINK_LIBRARIES)
  add_executable(wheel-${program} EXCLUDE_FROM_ALL $<TARGET_OBJECTS:${program}> $<TARGET_OBJECTS:ringside_glibc_floor>)
  target_link_libraries(wheel-${program} PRIVATE ${libraries}
    -Wl,--no-as-needed ${OLD_PTHREAD} ${OLD_DL} -Wl,--as-needed)
  target_link_options(wheel-${program} PRIVATE -static-libgcc -static-libstdc++ -s LINKER:--gc-sections)
  set_target_properties(wheel-${program} PROPERTIES RINGSIDE_ARCHIVES ON LINKER_LANGUAGE CXX
    OUTPUT_NAME ${program} RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/wheel/bin)
  add_dependencies(wheel_programs wheel-${program})
endforeach()
