#!/usr/bin/env bash
# usage: scripts/build_agent.sh [PROCESSOR]
# Builds kilter-agent as one static file for any Linux system with a processor of this type (build-agent/kilter-agent),
# or aarch64 (build-aarch64/kilter-agent), for which it downloads Debian's OpenSSL and libsodium into the build folder.
# It reaches a fleet through a broker. Exit codes: 0 built, 2 usage, 3 nothing can be downloaded,
# others: the build failed.
set -euo pipefail
cd "$(dirname "$0")/.."
case "${1:-}" in
  "") preset=agent folder=build-agent ;;
  aarch64)
    preset=aarch64-agent folder=build-aarch64
    scripts/fetch_agent_libraries.sh arm64 $folder/agent-libraries
    ;;
  *) sed -n '2,6s/^# //p' "$0" >&2; exit 2 ;;
esac
mkdir -p $folder
log=$folder/agent.log
{ cmake --preset $preset && cmake --build --preset $preset; } > $log 2>&1 || { tail -n 40 $log >&2; exit 1; }
echo "$PWD/$folder/kilter-agent"
