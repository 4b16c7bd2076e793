#!/bin/sh
# Compiles the Horovod wheel; run by horovod_wheel*.def in their container: compile.sh LOCK
#
# In:  /mnt with the wheels of the lock; /opt/containers/horovod; virtual environments in
#      /opt/horovod and, without pip, in /opt/venv; what the definition has exported besides
#      (HOROVOD_GPU_OPERATIONS, ...). Compiler: CC and CXX, default gcc and g++.
# Out: /opt/wheel/horovod-*.whl, and the same in /srv; in /opt/horovod the lock's packages, which
#      the image's definition takes over.
set -eu

ls /mnt/*.whl > /dev/null || { echo "no wheels: --bind WHEELS:/mnt is missing" >&2; exit 1; }
export PATH="/opt/venv/bin:$PATH"
export PIP_NO_INDEX=1 PIP_FIND_LINKS=/mnt PIP_DISABLE_PIP_VERSION_CHECK=1
install="--quiet --no-deps --no-compile --require-hashes"
/opt/horovod/bin/python -m pip install $install -r "$1"
# What only compiling needs stands in comments; the source archive is unpacked, not installed.
# It comes beside links to the packages: CUDA 13's compilers belong into their libraries' folder.
sed -n 's/^# build //p' "$1" > /opt/build.lock
grep -v '^horovod==' /opt/build.lock > /opt/tools.lock
packages=$(python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
for package in /opt/horovod/lib/python3*/site-packages/*; do
    case $package in
        */nvidia) cp -rs "$package" "$packages/" ;;
        *) ln -s "$package" "$packages/" ;;
    esac
done
python -m pip install $install -r /opt/tools.lock

# The build edits the tree it runs in: always a fresh one, checked against the lock.
sha256=$(sed -n 's/^horovod==.*sha256://p' /opt/build.lock)
echo "$sha256  $(ls /mnt/horovod-*.tar.gz)" | sha256sum --check --quiet
mkdir /opt/source /opt/wheel
tar -xzf /mnt/horovod-*.tar.gz --strip-components=1 -C /opt/source
(cd /opt && python -m containers.horovod.edits source)

export HOROVOD_WITH_PYTORCH=1 HOROVOD_WITHOUT_MXNET=1
grep -q '^tensorflow' "$1" && with=WITH || with=WITHOUT
export HOROVOD_${with}_TENSORFLOW=1
export HOROVOD_WITH_MPI=1 HOROVOD_WITH_GLOO=1
# Unset or empty, the flags of the machine that compiles leak in. v3 (2013: AVX2, F16C, FMA), since
# without F16C and FMA Adasum refuses fp16 ("Unsupported data type.") and sums of fp16 run in
# software, twice as slow. The label cpu.level says it (horovod_image/labels.py).
case $(uname -m) in
    x86_64) export HOROVOD_BUILD_ARCH_FLAGS="-march=x86-64-v3 -mtune=generic" ;;
    *) export HOROVOD_BUILD_ARCH_FLAGS="-mtune=generic" ;;
esac
# One compiler per core, but no more than memory allows: each of the two large sources takes 2.4 GB.
memory=$(awk '/^MemAvailable/ {print $2 < 2500000 ? 1 : int($2 / 2500000)}' /proc/meminfo)
cores=$(nproc)
export MAKEFLAGS=-j$((cores < memory ? cores : memory))
python -m pip wheel --verbose --no-build-isolation --no-deps --wheel-dir /opt/wheel /opt/source
cp /opt/wheel/horovod-*.whl /srv/
