# Makes two small images of the login node's own files, seconds to build on: shell.sif has a shell
# and a few programs, python.sif Python and pip besides. To be run in an empty folder.
set -eu

# A program with its libraries.
add() {
    file=$(readlink -f "$(type -P "$1")")
    cp -L "$file" "root/usr/bin/$1"
    libraries "$file"
}

libraries() {
    ldd "$1" 2> /dev/null | grep -o '/[^ ]*' | while read -r library; do
        mkdir -p "root$(dirname "$library")"
        [ -e "root$library" ] || cp -L "$library" "root$library"
    done
}

image() {
    printf 'Bootstrap: localimage\nFrom: root\n%%labels\n  mine yes\n%%test\n  test -d /usr\n' > base.def
    apptainer build --mksquashfs-args "-comp zstd -Xcompression-level 1" "$1" base.def
}

mkdir -p root/usr/bin root/usr/lib root/usr/lib64
for folder in bin lib lib64; do ln -s usr/$folder root/$folder; done
for folder in etc opt tmp proc sys dev root var/tmp home mnt media srv; do mkdir -p "root/$folder"; done
echo 'root:x:0:0:root:/root:/bin/sh' > root/etc/passwd
echo 'root:x:0:' > root/etc/group
for program in sh cat ls mkdir touch chmod chown cp dirname head id sleep env sort rm mv test sed getopt cut; do  # fakeroot wants the last ones
    add "$program"
done
image shell.sif

add python3
version=$(python3 -c 'import sys; print("python%d.%d" % sys.version_info[:2])')
cp -r --preserve=timestamps "/usr/lib/$version" root/usr/lib/
rm -rf root/usr/lib/"$version"/{test,idlelib,ensurepip,pydoc_data,tkinter,unittest,config-*}
for module in root/usr/lib/"$version"/lib-dynload/*.so; do libraries "$module"; done
mkdir -p root/usr/lib/python3/dist-packages root/etc/ssl/certs
cp -r --preserve=timestamps /opt/runner/lib/"$version"/site-packages/pip* root/usr/lib/python3/dist-packages/
cp /etc/ssl/certs/ca-certificates.crt root/etc/ssl/certs/  # Debian's pip wants it
image python.sif
