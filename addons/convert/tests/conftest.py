"""These tests start from the same signals and state as those of the kit, with the add-on found."""

from __future__ import annotations

from tests import addons
from tests.conftest import own_state, pytest_collection_finish, pytest_configure
from tests.unit.conftest import reason_for_processes

__all__ = ["own_state", "pytest_collection_finish", "pytest_configure", "reason_for_processes"]

addons.show()
