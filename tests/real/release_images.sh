# Makes what stands for our CPU image in the tests of releases: a shell, and in place of Python a
# script that says what the image's own test says. VERSION is the project's. Run in an empty folder
# with tiny.sh's root/ in it; ours/horovod_cpu.sif passes its test, the ones in other/ and failing/
# are others.
set -eu

image() {
    mkdir -p "$1"
    printf '#!/bin/sh\necho "%s"\nexit %s\n' "$2" "$3" > root/usr/bin/python
    chmod 755 root/usr/bin/python
    cat > image.def <<THE_END
Bootstrap: localimage
From: root
%labels
  org.opencontainers.image.version $VERSION
  org.opencontainers.image.revision ${4:-0123456789012345678901234567890123456789}
THE_END
    apptainer build --mksquashfs-args "-comp zstd -Xcompression-level 1" \
        "$1/horovod_cpu.sif" image.def
}

mkdir -p root/opt/horovod
echo 'torch==2' > root/opt/horovod/horovod_cpu.lock
echo '{"components": [{"purl": "pkg:pypi/torch@2"}, {"name": "x"}]}' > root/opt/horovod/sbom.cdx.json
image ours 'torch over Gloo: 2 ranks agree' 0
image other 'torch over Gloo: 2 ranks agree.' 0
image failing 'torch over Gloo: ranks are alone' 1
image changed 'torch over Gloo: 2 ranks agree' 0 0123456-dirty
