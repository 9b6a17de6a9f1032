#!/usr/bin/env bash
# usage: scripts/fetch_agent_libraries.sh ARCHITECTURE FOLDER
# Downloads Debian's static OpenSSL and libsodium for another processor (arm64, ...) and unpacks them into FOLDER, without
# installing anything. Does nothing if they are there. Exit codes: 0 done, 2 usage, 3 apt-get cannot download them.
set -euo pipefail
[ $# = 2 ] || { sed -n '2,4s/^# //p' "$0" >&2; exit 2; }
architecture=$1
mkdir -p "$2"
folder=$(realpath "$2")
[ ! -e "$folder/complete" ] || exit 0
apt=$folder/apt
mkdir -p "$apt/lists/partial" "$apt/archives/partial"
: > "$apt/status"
options=(-qq -o APT::Architecture="$architecture" -o APT::Architectures="$architecture" -o Dir::State="$apt" -o Dir::State::lists="$apt/lists"
  -o Dir::State::status="$apt/status" -o Dir::Cache="$apt" -o APT::Sandbox::User= -o Acquire::Languages=none)
{ apt-get "${options[@]}" update && (cd "$apt" && apt-get "${options[@]}" download libssl-dev libsodium-dev); } || {
  echo "fetch_agent_libraries.sh: apt-get cannot download libssl-dev and libsodium-dev for $architecture" >&2
  exit 3
}
for package in "$apt"/*.deb; do dpkg-deb -x "$package" "$folder"; done
rm -rf "$apt"
touch "$folder/complete"
