# The libraries of kilter-agent and kilter-broker: kilter_tls_headers and kilter_tls (OpenSSL), kilter_boost, of which only
# headers are used, and for the static agent kilter_static_tls and kilter_static_sodium. For another processor,
# KILTER_AGENT_ROOT is the folder into which scripts/fetch_agent_libraries.sh has put Debian's packages.
set(KILTER_AGENT_ROOT "" CACHE PATH
    "Folder with OpenSSL and libsodium for another processor; empty: those of this system")
kilter_host_headers(kilter_boost boost/beast.hpp BOOST_ALL_NO_LIB)
add_library(kilter_tls_headers INTERFACE)
if(KILTER_AGENT_ROOT)
  set(include ${KILTER_AGENT_ROOT}/usr/include)
  target_include_directories(kilter_tls_headers SYSTEM INTERFACE ${include} ${include}/${CMAKE_LIBRARY_ARCHITECTURE})
endif()
if(NOT KILTER_RUNTIME_ONLY)
  find_package(OpenSSL REQUIRED)
  add_library(kilter_tls INTERFACE)
  target_link_libraries(kilter_tls INTERFACE OpenSSL::SSL OpenSSL::Crypto)
  return()
endif()
foreach(library ssl crypto sodium)
  find_library(KILTER_STATIC_${library} lib${library}.a HINTS ${KILTER_AGENT_ROOT}/usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}
               NO_CMAKE_FIND_ROOT_PATH REQUIRED)
endforeach()
add_library(kilter_static_tls INTERFACE)
target_link_libraries(kilter_static_tls INTERFACE ${KILTER_STATIC_ssl} ${KILTER_STATIC_crypto} ${CMAKE_DL_LIBS} Threads::Threads)
add_library(kilter_static_sodium INTERFACE)
target_link_libraries(kilter_static_sodium INTERFACE ${KILTER_STATIC_sodium} kilter_tls_headers)
