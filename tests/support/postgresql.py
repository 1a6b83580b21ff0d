"""A PostgreSQL server of its own for the tests, or a skipped test with the reason."""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

USERS = ("postgres", "nobody")  # who may run a server, which root may not


def find_programs() -> Path | None:
    """Return the folder of initdb and pg_ctl: that of the newest version of Debian, or that of the PATH."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: float(path.parent.name))
    on_path = shutil.which("pg_ctl")
    folders = folders or ([Path(on_path).resolve().parent] if on_path else [])
    return next((folder for folder in reversed(folders) if (folder / "initdb").exists()), None)


def unprivileged_user() -> pwd.struct_passwd | None:
    """Return the user that runs the server, if this process is root's."""
    for name in USERS if os.geteuid() == 0 else ():
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    return None


@contextmanager
def postgresql_server() -> Iterator[str]:
    """Start a server that listens on a socket of the file system only, and yield the URL of its database."""
    pytest.importorskip("psycopg", reason='needs psycopg: pip install -c constraints.txt ".[postgres]"')
    programs, user = find_programs(), unprivileged_user()
    if programs is None:
        pytest.skip("needs a PostgreSQL server: apt-get install postgresql")
    if os.geteuid() == 0 and user is None:
        pytest.skip("needs a user other than root to run PostgreSQL")
    folder = Path(tempfile.mkdtemp(prefix="harpoon-pg-", dir="/tmp"))  # the path of a socket has at most 107 bytes
    run_as = {} if user is None else {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    if user is not None:
        os.chown(folder, user.pw_uid, user.pw_gid)
    data, log = folder / "data", folder / "log"

    def run(program: str, *arguments: str) -> None:
        command = [str(programs / program), *arguments]
        done = subprocess.run(  # noqa: S603
            command, cwd=folder, env={"PATH": os.defpath, "LC_ALL": "C.UTF-8"}, capture_output=True, text=True,
            check=False, timeout=120, **run_as,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr + (log.read_text() if log.exists() else "")

    try:
        run("initdb", "-D", str(data), "-U", "harpoon", "--auth=trust", "-E", "UTF8", "--no-sync")
        settings = f"-k {folder} -c listen_addresses='' -c fsync=off -c max_connections=20"
        # pg_ctl's child would keep the pipes of its output open, so it writes to the log.
        run("pg_ctl", "-D", str(data), "-l", str(log), "-o", settings, "-w", "start")
        try:
            yield f"postgresql://harpoon@/postgres?host={folder}"
        finally:
            run("pg_ctl", "-D", str(data), "-m", "immediate", "-w", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
