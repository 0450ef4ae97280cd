"""The package is built and installed once for all the tests that look at it."""

import subprocess
from collections.abc import Iterator

import pytest

from tests.packaging.installed import Built, Installed, build, install


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    return build(tmp_path_factory.mktemp("build"))


@pytest.fixture(scope="session")
def installed(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    folder = tmp_path_factory.mktemp("home of a user") / "my env"
    yield install(built.wheel, folder)
    subprocess.run(["chmod", "-R", "u+w", folder], check=True)  # or pytest cannot tidy up
