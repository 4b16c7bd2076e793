"""The generations of Slurm: which Debian release brings which, and what differs. Pure."""

from __future__ import annotations

from dataclasses import dataclass

COMMON = (
    # cluster; then what only those like a real site use
    *("slurmctld", "slurmd", "slurm-client", "slurm-wlm-basic-plugins", "munge"),
    *("slurmdbd", "slurm-wlm-mysql-plugin", "mariadb-server-core", "liblua5.1-0"),
    *("environment-modules", "lua5.3", "lua-filesystem", "lua-json", "lua-posix", "lua-term"),
    *("openmpi-bin", "tini"),
    # containers
    *("squashfs-tools", "squashfuse", "fuse-overlayfs", "fuse3", "uidmap"),
    *("fuse2fs", "gocryptfs"),  # Apptainer says at each start that they are missing
    *("podman", "crun"),  # without root, as Podman is on nodes
    *("proot", "docker-registry", "apache2-utils"),  # a build mode; a real registry, its passwords
    # building base images inside
    *("mmdebstrap", "debian-archive-keyring", "ca-certificates", "fakeroot", "xz-utils", "zstd"),
    # python and everyday tools
    *("python3", "python3-venv", "python3-pip-whl", "python3-setuptools-whl"),
    *("iproute2", "iputils-ping", "procps", "psmisc", "less", "curl", "jq", "git", "file", "nano"),
    *(
        "openssh-client",
        "openssh-server",
        "rsync",
        "strace",
        "bash-completion",
        "hostname",
        "netbase",
    ),
    *("passwd", "login", "tzdata", "util-linux", "util-linux-extra", "mount", "libc-bin"),
)
# NOTE: Debian has Lmod or Environment Modules on a machine, never both; their files do not collide.
# A shell has either by sourcing its init/bash.
LMOD = """\
cd tmp
APT_CONFIG=$MMDEBSTRAP_APT_CONFIG apt-get -qq -o APT::Sandbox::User=root download lmod
dpkg-deb --fsys-tarfile lmod_*.deb | tar --extract --directory .. ./usr/lib/lmod ./usr/share/lmod
rm lmod_*.deb
cd ..
"""
# NOTE: Apptainer is packaged in unstable only and needs glibc >= 2.38. Debian 12 has 2.36, and
# newer ones break its base-files: there Apptainer gets a C library of its own (a program finds it
# through its interpreter and RPATH; what it starts does not).
OWN_GLIBC = """\
cd tmp
APT_CONFIG=$MMDEBSTRAP_APT_CONFIG apt-get -qq -o APT::Sandbox::User=root download \
    apptainer libc6/trixie
dpkg-deb --extract libc6_*.deb glibc
mkdir ../opt/glibc
cp -a glibc/usr/lib/x86_64-linux-gnu/*.so* ../opt/glibc
chroot .. sh -c 'dpkg --install --force-depends tmp/apptainer_*.deb'
for program in usr/bin/apptainer usr/lib/x86_64-linux-gnu/apptainer/bin/starter; do
    chroot .. patchelf --force-rpath --set-rpath /opt/glibc \
        --set-interpreter /opt/glibc/ld-linux-x86-64.so.2 "/$program"
done
rm -r ./*.deb glibc
cd ..
"""

TORQUE_NEEDS = ("libslurm-perl", "libslurmdb-perl", "libswitch-perl")
# PBS's commands over this Slurm, not on the PATH: else each job would have two schedulers. They
# find Slurm's commands beside themselves.
TORQUE = """\
cd tmp
APT_CONFIG=$MMDEBSTRAP_APT_CONFIG apt-get -qq -o APT::Sandbox::User=root download slurm-wlm-torque
dpkg-deb --extract slurm-wlm-torque_*.deb torque
mv torque/usr/bin ../opt/torque
for command in sbatch salloc srun; do ln -s "/usr/bin/$command" ../opt/torque/; done
rm -r slurm-wlm-torque_*.deb torque
cd ..
"""


# NOTE: slurmd 22.05 opens libpmix.so, which Debian 12 has in libpmix-dev only; later ones open
# libpmix.so.2.
PMIX_LINK = "ln -sf libpmix.so.2 usr/lib/x86_64-linux-gnu/pmix2/lib/libpmix.so\n"


@dataclass(frozen=True)
class Release:
    """One Debian release as the nodes' system.

    *suites*: where packages may come from, the release first; *series*: package -> the beginning
    of the version that this cluster is written for; *customize*: shell text run in the new tree.
    """

    name: str
    suites: tuple[str, ...]
    packages: tuple[str, ...]
    series: tuple[tuple[str, str], ...]
    cgroup_conf: str = "CgroupPlugin=disabled\n"
    customize: str = ""

    def preferences(self) -> str:
        """apt_preferences(5): all but what the release lacks comes from the release."""
        pins = (f"Package: *\nPin: release n={_code(s)}\nPin-Priority: 90\n" for s in self.suites)
        return "\n".join(list(pins)[1:])


def _code(suite: str) -> str:
    return {"unstable": "sid"}.get(suite, suite)


RELEASES = {
    release.name: release
    for release in (
        Release(
            "bookworm",
            ("bookworm", "trixie", "unstable"),
            (
                *(*COMMON, "libopenmpi3", "libpmix2", "patchelf", "containernetworking-plugins"),
                # for `runner build env`, of which its Python is that of the lock
                *("g++", "make", "python3-dev", "libopenmpi-dev", "mpich", "libmpich-dev"),
            ),
            (("slurmctld", "22.05."), ("libpmix2", "4."), ("openmpi-bin", "4.1.")),
            # NOTE: 22.05 knows no disabled plugin; with this one and without a plugin that uses
            # cgroups, nothing of them is touched.
            cgroup_conf="CgroupPlugin=cgroup/v1\nCgroupMountpoint=/sys/fs/cgroup\n",
            customize=PMIX_LINK + OWN_GLIBC,
        ),
        Release(
            "trixie",
            ("trixie", "unstable"),
            (*COMMON, "apptainer", "libopenmpi40", "libpmix2t64", *TORQUE_NEEDS),
            (("slurmctld", "24.11."), ("libpmix2t64", "5."), ("openmpi-bin", "5.")),
            customize=TORQUE,
        ),
        # NOTE: this Slurm is built without PMIx (PMIx is at a candidate of 7): --mpi=list has pmi2
        # and none.
        Release(
            "unstable",
            ("unstable",),
            (*COMMON, "apptainer", "libopenmpi40", "libpmix2t64"),
            (("slurmctld", "26.05."),),
        ),
    )
}
DEFAULT = "trixie"
