"""What the kernel of an open notebook knows, asked beside the page."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

from jupyter_client import BlockingKernelClient

from tests.browser.lab_server import PATIENCE_S


class Kernel:
    """A second client of a running kernel; close it with `stop`.

    Args:
        file: the kernel's connection file.
    """

    def __init__(self, file: Path) -> None:
        self._client = BlockingKernelClient(connection_file=str(file))
        self._client.load_connection_file()
        self._client.start_channels()
        self._client.wait_for_ready(timeout=PATIENCE_S)

    def value(self, expression: str) -> Any:
        """The value of an expression of literals; raises what the kernel says if it fails."""
        reply = self._client.execute_interactive(
            "", store_history=False, user_expressions={"found": expression}, timeout=PATIENCE_S
        )
        result = reply["content"]["user_expressions"]["found"]
        assert result["status"] == "ok", result
        return ast.literal_eval(result["data"]["text/plain"])

    def stop(self) -> None:
        """Leave the kernel alone."""
        self._client.stop_channels()
