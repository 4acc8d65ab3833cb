# Part of `cmake --install`: the unit and the settings, which contain paths below the install prefix. SOURCE is the
# folder of this file.
set(CONFIG_FOLDER ${CMAKE_INSTALL_PREFIX}/etc/ringside)
set(STORE_FOLDER ${CMAKE_INSTALL_PREFIX}/var/lib/ringside)
if(CMAKE_INSTALL_PREFIX MATCHES "^/usr(/local)?/?$")
  set(CONFIG_FOLDER /etc/ringside)
  set(STORE_FOLDER /var/lib/ringside)
endif()
set(PROGRAMS ${CMAKE_INSTALL_PREFIX}/bin)
set(root $ENV{DESTDIR})
configure_file(${SOURCE}/ringside-server.service.in
  ${root}${CMAKE_INSTALL_PREFIX}/lib/systemd/system/ringside-server.service @ONLY)
# Keep local changes.
if(NOT EXISTS ${root}${CONFIG_FOLDER}/server.yaml)
  configure_file(${SOURCE}/server.yaml.in ${root}${CONFIG_FOLDER}/server.yaml @ONLY)
endif()
