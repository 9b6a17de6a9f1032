# Makes faults of the programs and of libkilter_runtime harder to exploit. To see what it costs, build once more with
# -DKILTER_HARDENING=OFF and compare both builds alternately on a quiet machine:
#   cmake -S . -B build-plain -G Ninja -DCMAKE_BUILD_TYPE=Release -DKILTER_HARDENING=OFF
#   cmake --build build-plain --target kilter kilter-worker kilter_runtime
#   build/kilter bench MODEL --threads 1 --json -        build-plain/kilter bench MODEL --threads 1 --json -
#   build/kilter compile MODEL -o /tmp/m.kilter          build-plain/kilter compile MODEL -o /tmp/m.kilter
#
# Kernels are generated without these options. They have no buffer on the stack, call nothing, and return to their
# caller, so they satisfy a shadow stack. Indirect branch tracking would require an endbr64 at their entries, since they
# are called through pointers. Linux enforces it for itself but not for programs, so the mark in the ELF files is a
# promise about their own code only. (Files carry the mark only where the system's start-up objects do, which Debian's
# do not.) If a system starts to enforce it, the code generator must set the module flag "cf-protection-branch"
# ("branch-target-enforcement" on AArch64).
option(KILTER_HARDENING "Stack protector, fortified libc calls, read-only relocations, control-flow protection" ON)
if(NOT KILTER_HARDENING OR KILTER_SANITIZE)  # sanitizers detect more, and break the fortified calls
  return()
endif()

add_compile_options(-fstack-protector-strong)
if(NOT CMAKE_BUILD_TYPE STREQUAL "Debug")  # the fortified calls need optimisation
  add_compile_options(-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3)
endif()
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  add_compile_options(-fcf-protection=full)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
  add_compile_options(-mbranch-protection=standard)
endif()
add_link_options(-Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack)
