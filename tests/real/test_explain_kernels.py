"""`runner explain` on nodes whose kernel lets users have no namespaces, or not all."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from tests.cluster.design import LOOPBACK_NAME, NO_HOST_NAMES, NO_USER_NAMESPACES

from .beside import cluster
from .causes import INIT
from .conftest import IMAGE, Login, new_folder


@contextmanager
def place(*quirks: str) -> Iterator[Login]:
    """An empty folder of ada's on a cluster with these quirks."""
    with cluster(*(f"--quirk={quirk}" for quirk in quirks)):
        yield Login(new_folder())


def test_without_user_namespaces_no_container_runs_and_the_doctor_agrees() -> None:
    with place(NO_USER_NAMESPACES) as login:
        login.write("hello.py", "print('hello')")
        done = login.launch("--nodes", "2", "--wait", "hello.py")
        assert done.returncode != 0, "the login node, where the plan was made, has them"
        said = login.why()
        assert said["id"] == "no-user-namespaces", said
        assert said["certainty"] == "certain", said
        assert any("max_user_namespaces" in line for line in said["evidence"]), said
        fix = said["remedies"][0]["text"]
        assert fix.startswith(f"runner launch --exclude {said['host']} --nodes 2")
        doctor = login.runner("doctor", "--job", "--image", IMAGE).stdout
        assert "failure  trial: " in doctor, doctor
        assert "the node does not let users run containers" in doctor, doctor
        assert re.search(rf"try: runner doctor --exclude n\d --image {IMAGE} --job", doctor), doctor


def test_a_name_that_leads_nowhere_and_no_other_to_be_had() -> None:
    with place(LOOPBACK_NAME, NO_HOST_NAMES) as login:
        login.write("init.py", INIT)
        login.launch("--nodes", "2", "--controller", "gloo", "--wait", "init.py")
        said = login.why()
        assert (said["id"], said["certainty"]) == ("misleading-host-name", "certain"), said
        assert f"{said['host']} does not resolve to its interface eth0" in said["what"], said
        mended = login.sh(said["remedies"][0]["text"])
        assert mended == "", "--wait says nothing of a job that ended well"
