# What makes faults of the programs and of libkilter_runtime harder to misuse. What it costs: build once more with
# -DKILTER_HARDENING=OFF and compare, in turns on a quiet machine,
#   cmake -S . -B build-plain -G Ninja -DCMAKE_BUILD_TYPE=Release -DKILTER_HARDENING=OFF
#   cmake --build build-plain --target kilter kilter-worker kilter_runtime
#   build/kilter bench MODEL --threads 1 --json -        build-plain/kilter bench MODEL --threads 1 --json -
#   build/kilter compile MODEL -o /tmp/m.kilter          build-plain/kilter compile MODEL -o /tmp/m.kilter
#
# Kernels are made without these: they have no buffer on the stack, call nothing, and return as they were called, which
# is what a shadow stack wants. Indirect branch tracking would want an endbr64 at their entries, as they are called
# through pointers; Linux does not enforce it for programs (it does for itself), so that the mark of the ELF files is a
# promise of their own code alone (files bear it only where the system's start-up objects do, which Debian's do not).
# Where a system should come to enforce it, the code generator has to set the module flag "cf-protection-branch"
# (Branch target enforcement on AArch64: "branch-target-enforcement").
option(KILTER_HARDENING "Stack protector, fortified libc calls, read-only relocations, control-flow protection" ON)
if(NOT KILTER_HARDENING OR KILTER_SANITIZE)  # sanitizers see more, and break the fortified calls
  return()
endif()

add_compile_options(-fstack-protector-strong)
if(NOT CMAKE_BUILD_TYPE STREQUAL "Debug")  # the fortified calls need an optimiser
  add_compile_options(-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3)
endif()
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  add_compile_options(-fcf-protection=full)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
  add_compile_options(-mbranch-protection=standard)
endif()
add_link_options(-Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack)
