"""Builds wheels whose hot path is compiled by mypyc, where that is asked for.

``HATCH_BUILD_HOOK_ENABLE_CUSTOM=true`` asks for it (``make wheel`` does). It needs a C compiler.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_SETUP = """
from mypyc.build import mypycify
from setuptools import setup

options = ["--config-file", {configuration!r}, "--explicit-package-bases"]
modules = mypycify([*options, *{files!r}], opt_level="3", debug_level="0", target_dir={target!r})
setup(name="headgate", packages=[], ext_modules=modules)
"""

_CONFIGURATION = """
[mypy]
namespace_packages = true

[mypy-confluent_kafka.*]
ignore_missing_imports = true
follow_imports = skip
"""


class CompiledModules(BuildHookInterface[Any]):
    """Adds to a wheel what mypyc makes of the modules named in ``pyproject.toml``."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002
        """Compile, and put the results beside the sources in the wheel."""
        root = Path(self.root)
        sources = root / self.config["source"]
        files = sorted(
            str(path.relative_to(sources))
            for pattern in self.config["modules"]
            for path in sources.glob(pattern)
        )
        # It must outlive this call: the wheel is written after it.
        self._directory = TemporaryDirectory()
        directory = Path(self._directory.name)
        # The project's own configuration is about all sources, and mypyc takes a note for an error.
        configuration = directory / "mypy.ini"
        configuration.write_text(_CONFIGURATION)
        setup = directory / "setup.py"
        setup.write_text(
            _SETUP.format(
                configuration=str(configuration),
                files=files,
                target=str(directory / "c"),
            )
        )
        built = directory / "built"
        command = [sys.executable, str(setup), "--quiet", "build_ext"]
        command += ["--build-lib", str(built), "--build-temp", str(directory / "objects")]
        environment = {**os.environ, "MYPY_CACHE_DIR": str(directory / "cache")}
        done = subprocess.run(
            command, cwd=sources, env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise RuntimeError(
                "the modules could not be compiled; a C compiler and Python's headers are needed "
                f"(or leave HATCH_BUILD_HOOK_ENABLE_CUSTOM unset):\n{done.stdout}{done.stderr}"
            )
        for path in built.rglob("*"):
            if path.is_file():
                build_data["force_include"][str(path)] = str(path.relative_to(built))
        build_data["pure_python"] = False
        build_data["infer_tag"] = True

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002
        """Remove what was made on the way."""
        self._directory.cleanup()
