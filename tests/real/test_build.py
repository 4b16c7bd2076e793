"""`runner build` with definitions: each way of building, bad input, disks, interruption."""

from __future__ import annotations

import shlex

import pytest

from .conftest import ended, succeeded
from .yard import Yard, yard

__all__ = ["yard"]

OWNER = "%post\n  touch /opt/file\n  chown 5:5 /opt/file\n"
PLAIN = "%post\n  touch /opt/file\n"
RUN = "env -C $HOME RUNNER_SCRATCH=$HOME/scratch runner build"
# A user without subordinate ids. Only users with a name can run Apptainer.
EVE = """
(cat /etc/passwd; echo eve:x:1002:1002::$PWD/eve:/bin/sh) > passwd
mount --bind passwd /etc/passwd
rm -rf eve; mkdir eve; cp {definition} eve/x.def; chown -R 1002:1002 eve
as_eve() {{
    setpriv --reuid=1002 --regid=1002 --clear-groups env HOME=$PWD/eve USER=eve "$@"
}}
"""


def test_with_subordinate_ids(yard: Yard) -> None:
    folder = yard.fresh("subordinate", x=OWNER)
    done = succeeded(yard.build(f"{folder}/x.def", "-o", f"{folder}/x.sif"))
    assert "build mode: fakeroot with subordinate ids (uid map: 0 1000 1" in done.stderr
    assert done.stdout == f"{folder}/x.sif\n"
    yard.sh(f"apptainer exec {folder}/x.sif test -e /opt/file")


def test_the_machines_tmp_is_not_that_of_the_build(yard: Yard) -> None:
    empties = "%post\n  [ ! -e /tmp/ours ]\n  touch /var/tmp/x\n  rm -rf /tmp/* /var/tmp/*\n"
    folder = yard.fresh("emptying", x=empties)
    yard.sh("touch /tmp/ours")
    succeeded(yard.build(f"{folder}/x.def", "-o", f"{folder}/x.sif"))
    yard.sh("rm /tmp/ours")
    assert yard.left() == ""


def as_eve(yard: Yard, body: str, before: str = "") -> str:
    folder = yard.fresh("mapped", x=body)
    script = EVE.format(definition=f"{folder}/x.def") + before
    done = yard.as_root(f"{script}\nas_eve sh -c '{RUN} x.def' 2>&1 || echo code $?; rm -r eve")
    return done.stdout + done.stderr


def test_without_subordinate_ids(yard: Yard) -> None:
    seen = as_eve(yard, PLAIN)
    assert "build mode: root-mapped namespace (uid map: 0 1002 1; files can be given" in seen
    assert f"{yard.folder}/eve/x.sif" in seen
    assert "code" not in seen.splitlines()[-1]


def test_one_user_alone_and_a_file_for_another(yard: Yard) -> None:
    seen = as_eve(yard, OWNER, "mount --bind /dev/null $(readlink -f /usr/bin/fakeroot)")
    assert "all files belong to one user" in seen
    assert "a program gives a file to another user, and this way of building has only one" in seen
    assert "sudo usermod --add-subuids" in seen
    assert seen.endswith("code 1\n")


def test_no_user_namespaces_is_refused_with_the_administrators_command(yard: Yard) -> None:
    folder = yard.fresh("none", x=PLAIN)
    done = yard.as_root(f"""
        unshare --user --map-users=0,0,65536 --map-groups=0,0,65536 bash -c '
            echo 0 > /proc/sys/user/max_user_namespaces
            setpriv --reuid=1000 --regid=1000 --clear-groups env -C {folder} HOME={folder} \\
                USER=ada RUNNER_SCRATCH={folder}/scratch runner build x.def || echo code $?'""")
    assert done.stdout == "code 80\n"
    assert "no way to build images works here for ada" in done.stderr
    assert "sudo sysctl -w user.max_user_namespaces=15000" in done.stderr
    assert "runner pull" in done.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("size=100m", "no space to build"),
        ("size=5g,noexec", "mounted noexec"),
        ("size=5g,nr_inodes=1000", "inodes free"),
    ],
)
def test_a_scratch_that_cannot_do_is_refused(yard: Yard, options: str, message: str) -> None:
    folder = yard.fresh("poor", x=PLAIN)
    done = yard.as_root(f"""
        mkdir {folder}/disk; mount -t tmpfs -o {options},mode=777 tmpfs {folder}/disk
        setpriv --reuid=1000 --regid=1000 --init-groups env -C {folder} HOME=/home/ada USER=ada \\
            RUNNER_SCRATCH={folder}/disk runner build x.def || echo code $?""")
    assert done.stdout == "code 80\n", done.stderr
    assert message in done.stderr
    assert "RUNNER_SCRATCH=<folder>" in done.stderr


def test_a_disk_that_fills_up(yard: Yard) -> None:
    folder = yard.fresh("full", x="%post\n  head -c 9000000000 /dev/zero > /opt/zero\n")
    done = yard.as_root(f"""
        cd {folder}; mkdir disk; mount -t tmpfs -o size=1200m,mode=777 tmpfs disk
        echo old > x.sif; chown 1000 x.sif
        setpriv --reuid=1000 --regid=1000 --init-groups env -C {folder} HOME=/home/ada USER=ada \\
            RUNNER_SCRATCH=$PWD/disk runner build --from ../shell.sif --def x.def || echo code $?
        cat x.sif; find disk/horovod-runner/tmp -mindepth 1""")
    assert done.stdout == "code 1\nold\n", done.stderr
    assert "the disk is full\n  | head: error writing" in done.stderr
    assert "RUNNER_SCRATCH=<folder>" in done.stderr


def test_bad_definitions_fail_before_anything_runs(yard: Yard) -> None:
    folder = yard.fresh("bad", section="%pots\n  true\n", good="%post\n  true\n")
    done = yard.build(f"{folder}/section.def")
    ended(done, 2, "section.def, line 3: there is no section '%pots'\n  | %pots\ndid you mean")
    done = yard.build(f"{folder}/good.def", "--build-arg", "color=red")
    ended(done, 2, "--build-arg color=...: good.def has no '{{ color }}'")
    done = yard.build(f"{folder}/good.def", "-o", folder)
    ended(done, 2, f"--output {folder} is a folder; name a file, such as my.sif")
    ended(yard.build(f"{folder}/absent.def"), 2, "cannot read the definition")
    ended(yard.build(f"{folder}/good.def", "-o", "/proc/x.sif"), 2, "you cannot write in /proc")


def test_a_scratch_that_may_not_be_written(yard: Yard) -> None:
    folder = yard.fresh("closed", x=PLAIN)
    done = yard.build(f"{folder}/x.def", env={"RUNNER_SCRATCH": "/usr/share"})
    ended(done, 1, "cannot write /usr/share/horovod-runner", "Permission denied")
    assert "Traceback" not in done.stderr


def test_a_scratch_that_apptainer_cannot_name(yard: Yard) -> None:
    folder = yard.fresh("odd", x=PLAIN)
    scratch = f"{folder}/it's; here"
    yard.sh(f"mkdir {shlex.quote(scratch)}")
    done = yard.build(f"{folder}/x.def", env={"RUNNER_SCRATCH": scratch})
    ended(done, 80, f"Apptainer cannot build below {scratch}/horovod-runner/tmp: it has ';")


# A SIF says twice what it is for: in its header, and of its file system.
FOREIGN = """
import sys
from pathlib import Path
data = bytearray(Path(sys.argv[1]).read_bytes())
data[45:47] = b"05"
place = data.find(b"\\x02\\0\\0\\0" + b"02\\0", 128, 2**16)
data[place + 4:place + 6] = b"05"
Path(sys.argv[2]).write_bytes(data)
"""


def test_a_base_for_another_architecture(yard: Yard) -> None:
    """ppc64, which few machines emulate: where one does, Apptainer takes the base."""
    folder = yard.fresh("foreign", x=PLAIN)
    arguments = shlex.join([FOREIGN, "shell.sif", f"{folder}/power.sif"])
    yard.sh(f"python3 -c {arguments}; sed -i 's/shell.sif/foreign\\/power.sif/' {folder}/x.def")
    done = yard.build(f"{folder}/x.def")
    ended(done, 1, "programs of the image are for another architecture than this machine")
    done = yard.build("--from", f"{folder}/power.sif", "--def", f"{folder}/x.def")
    ended(done, 80, "is for ppc64, and this machine is amd64")


SLOW = """%post
  head -c 1000 /dev/zero > /opt/zero
  mkdir /opt/locked
  touch /opt/locked/file
  chown -R 5:5 /opt/locked
  chmod 0 /opt/locked
  echo IN THE MIDDLE
  sleep 300
"""
# Background jobs of a shell ignore Ctrl-C; the program that starts this one does not.
INTERRUPT = """
python3 -c '
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
os.execvp(sys.argv[1], sys.argv[1:])' runner build slow.def 2> err & pid=$!
for i in $(seq 300); do
    grep -qs "^IN THE MIDDLE" ../scratch/horovod-runner/logs/slow.log && break
    sleep 0.1
done
kill -{signal} $pid
code=0
wait $pid || code=$?
echo $code; cat slow.sif
"""


@pytest.mark.parametrize(("signal", "code"), [("INT", 130), ("TERM", 143), ("HUP", 129)])
def test_interrupted_in_the_middle(yard: Yard, signal: str, code: int) -> None:
    folder = yard.fresh("slow", slow=SLOW)
    yard.sh(f"rm -f {yard.scratch}/horovod-runner/logs/slow.log; echo old > {folder}/slow.sif")
    script = INTERRUPT.replace("{signal}", signal)
    done = yard.run("env", "-C", folder, f"RUNNER_SCRATCH={yard.scratch}", "bash", "-c", script)
    assert done.stdout == f"{code}\nold\n", done.stderr
    assert "interrupted; the incomplete build is removed" in yard.sh(f"cat {folder}/err")
    assert yard.left() == ""


def test_a_failing_test_keeps_the_image_that_was_there(yard: Yard) -> None:
    folder = yard.fresh("failing", x="%test\n  echo not today\n  exit 7\n")
    yard.sh(f"echo old > {folder}/x.sif")
    done = yard.build(f"{folder}/x.def", "-o", f"{folder}/x.sif")
    ended(done, 1, "apptainer test failed (exit code 7)", "| not today")
    assert yard.sh(f"cat {folder}/x.sif") == "old\n"
    assert yard.left() == ""


def test_hostile_names(yard: Yard) -> None:
    name = "a b'c\"d $HOME;e,ü"
    folder = yard.fresh(name, **{name: PLAIN})
    scratch = f"RUNNER_SCRATCH={yard.scratch}"
    done = succeeded(yard.run("env", "-C", folder, scratch, "runner", "build", f"{name}.def"))
    assert done.stdout == f"{folder}/{name}.sif\n"
    succeeded(yard.run("apptainer", "exec", done.stdout.strip(), "test", "-e", "/opt/file"))


def test_wheels_of_our_own_image(yard: Yard) -> None:
    pin = yard.sh("grep '^torch==' /opt/kit/containers/horovod_cpu.lock").split()[0]
    name, _, version = pin.partition("==")
    wheel = f"{name}-{version}-py3-none-any.whl"
    env = {"RUNNER_CACHE": f"{yard.folder}/cache"}
    yard.sh("mkdir -p wheels cache")
    done = yard.build("cpu", "--wheelhouse", "wheels", env=env)
    ended(done, 1, f"no file for {pin} in {yard.folder}/wheels")
    yard.sh(f"echo altered > wheels/{wheel}")
    done = yard.build("cpu", "--wheelhouse", "wheels", env=env)
    ended(done, 1, f"{pin} is not the file that the lock names: its hash differs")
    assert yard.sh("ls cache/wheels") == ""
