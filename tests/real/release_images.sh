# Makes what stands for our CPU image in the tests of releases: a shell, and in place of Python an
# empty script. VERSION is the project's. Run in an empty folder with tiny.sh's root/ in it;
# newer/ and changed/ have images of another commit, and of uncommitted files.
set -eu

image() {
    mkdir -p "$1"
    cat > image.def <<THE_END
Bootstrap: localimage
From: root
%labels
  org.opencontainers.image.version $VERSION
  org.opencontainers.image.revision $2
THE_END
    apptainer build --mksquashfs-args "-comp zstd -Xcompression-level 1" \
        "$1/horovod_cpu.sif" image.def
}

printf '#!/bin/sh\n' > root/usr/bin/python
chmod 755 root/usr/bin/python
image ours 0123456789012345678901234567890123456789
image newer 1123456789012345678901234567890123456789
image changed 0123456-dirty
