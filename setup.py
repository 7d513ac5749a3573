"""The rest of pyproject.toml: a wheel holds the tables of data/ as course_lib/_data; a checkout reads data/ itself."""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


class WithTables(build_py):
    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            shutil.copytree("data", Path(self.build_lib, "course_lib", "_data"), dirs_exist_ok=True)


setup(cmdclass={"build_py": WithTables})
