# What `cmake --install` installs, by component (doc/install.md):
#   runtime  libkilter_runtime, for programs that run compiled files
#   dev      headers, CMake package, pkg-config files, and libkilter, the C++ and C interfaces with the compiler
#   tools    the programs kilter and kilter-worker, and kilter-agent and kilter-broker for a fleet
# The components of the Python wheels (python/CMakeLists.txt) are installed only if they are named. The build of a wheel
# (SKBUILD) has no others.
if(NOT KILTER_INSTALL OR SKBUILD)
  return()
endif()
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(packages ${CMAKE_INSTALL_LIBDIR}/cmake/kilter)
cmake_path(ABSOLUTE_PATH CMAKE_INSTALL_LIBDIR BASE_DIRECTORY ${CMAKE_INSTALL_PREFIX} OUTPUT_VARIABLE libraries)
cmake_path(ABSOLUTE_PATH CMAKE_INSTALL_INCLUDEDIR BASE_DIRECTORY ${CMAKE_INSTALL_PREFIX} OUTPUT_VARIABLE headers)

# kilter_install_library(TARGET INTERFACE COMPONENT DESCRIPTION): installs a library into COMPONENT, and into `dev` what
# others need to link to it: the target kilter::INTERFACE of the CMake package, and a file for pkg-config, which finds
# the folders relative to its own location.
function(kilter_install_library target interface component description)
  install(TARGETS ${target} EXPORT kilter-${interface} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT ${component}
          NAMELINK_COMPONENT dev INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  install(EXPORT kilter-${interface} NAMESPACE kilter:: DESTINATION ${packages} COMPONENT dev)
  get_target_property(library ${target} OUTPUT_NAME)
  if(NOT library)
    set(library ${target})
  endif()
  string(REPLACE "_" "-" name ${library})
  cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX BASE_DIRECTORY ${libraries}/pkgconfig OUTPUT_VARIABLE prefix)
  cmake_path(RELATIVE_PATH headers BASE_DIRECTORY ${libraries}/pkgconfig OUTPUT_VARIABLE includedir)
  configure_file(cmake/package/library.pc.in ${PROJECT_BINARY_DIR}/package/${name}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/package/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT dev)
endfunction()

set(components runtime dev)
set(public_headers runtime.h version.h)
kilter_install_library(kilter_runtime runtime runtime "Runs networks that Kilter compiled to files (C)")
if(NOT KILTER_RUNTIME_ONLY)
  list(APPEND components tools)
  list(APPEND public_headers compiler.h kilter.h)
  kilter_install_library(kilter_cxx kilter dev "Compiles and runs neural networks (C++20 and C)")
  if(KILTER_AGENT)
    set(fleet_programs kilter-agent kilter-broker)
  endif()
  install(TARGETS kilter kilter-worker ${fleet_programs} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT tools)
  # The loader finds Debian's LLVM without the folder of links that CMake finds. If the installed files contained that
  # folder, dpkg-shlibdeps would not always find LLVM's package.
  if(NOT KILTER_STATIC)
    get_target_property(llvm LLVM LOCATION)
    file(REAL_PATH ${llvm} llvm)
    cmake_path(GET llvm PARENT_PATH llvm)
    if(NOT llvm IN_LIST CMAKE_CXX_IMPLICIT_LINK_DIRECTORIES)
      set_target_properties(kilter_cxx kilter kilter-worker PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)
    endif()
  endif()
endif()
list(TRANSFORM public_headers PREPEND ${PROJECT_SOURCE_DIR}/include/kilter/)
install(FILES ${public_headers} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/kilter COMPONENT dev)

configure_package_config_file(cmake/package/kilter-config.cmake.in ${PROJECT_BINARY_DIR}/package/kilter-config.cmake
                              INSTALL_DESTINATION ${packages} PATH_VARS CMAKE_INSTALL_LIBDIR NO_CHECK_REQUIRED_COMPONENTS_MACRO)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/package/kilter-config-version.cmake COMPATIBILITY ${KILTER_COMPATIBILITY})
install(FILES ${PROJECT_BINARY_DIR}/package/kilter-config.cmake ${PROJECT_BINARY_DIR}/package/kilter-config-version.cmake
        DESTINATION ${packages} COMPONENT dev)
foreach(component IN LISTS components)
  install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/doc/kilter-${component} RENAME copyright
          COMPONENT ${component})
endforeach()
if(PROJECT_IS_TOP_LEVEL)
  include(DebianPackages)
endif()
