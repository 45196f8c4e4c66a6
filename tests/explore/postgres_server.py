"""A PostgreSQL server of our own: made in a temporary folder, on the loopback device, gone at the end."""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import sqlalchemy as sa


@dataclass
class Server:
    port: int
    user: str
    password: str
    folder: Path
    prefix: list[str]
    programs: Path
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        settings = ["listen_addresses=127.0.0.1", f"unix_socket_directories={self.folder}", "fsync=off"]
        with (self.folder / "log").open("a") as log:
            self.process = subprocess.Popen(
                [*self.prefix, self.programs / "postgres", "-D", self.folder / "data", "-p", str(self.port)]
                + [word for setting in settings for word in ("-c", setting)],
                cwd=self.folder,
                stdout=log,
                stderr=log,
            )
        _wait_until_ready(self.programs, self, self.process, self.folder / "log")

    def stop(self) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGINT)  # PostgreSQL's fast shutdown: open sessions are ended
            self.process.wait(30)
            self.process = None

    @contextmanager
    def database(self) -> Iterator[str]:
        """Give the address of a fresh database."""
        name = f"db_{secrets.token_hex(6)}"
        address = self.url().replace("postgresql:", "postgresql+pg8000:")
        admin = sa.create_engine(address, isolation_level="AUTOCOMMIT", pool_pre_ping=True)
        try:
            with admin.connect() as connection:
                connection.exec_driver_sql(f"create database {name}")
            yield self.url(name)
            with admin.connect() as connection:
                connection.exec_driver_sql(f"drop database {name} with (force)")
        finally:
            admin.dispose()

    def url(self, database: str = "postgres", *, password: str | None = "", user: str = "") -> str:
        """Address of a database; a password of None leaves it out."""
        secret = "" if password is None else f":{password or self.password}"
        return f"postgresql://{user or self.user}{secret}@127.0.0.1:{self.port}/{database}"


def binaries() -> Path:
    """Folder of the server's programs; where CI runs they must be there, elsewhere the test may be skipped."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    on_path = shutil.which("initdb")
    if not found and on_path:
        found = [Path(on_path).resolve()]
    if not found:
        reason = "the PostgreSQL server is not installed (Debian: apt-get install postgresql)"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return found[-1].parent


@contextmanager
def started() -> Iterator[Server]:
    programs = binaries()
    folder = Path(tempfile.mkdtemp(prefix="cimplan-postgres-"))
    server = Server(_free_port(), "cimplan", secrets.token_hex(8), folder, [], programs)
    try:
        secret = folder / "secret"
        secret.write_text(server.password)
        server.prefix = _as_somebody(folder, secret)
        initdb = [programs / "initdb", "-D", folder / "data", "-U", server.user, f"--pwfile={secret}"]
        options = ["--auth=scram-sha-256", "--encoding=UTF8", "--locale=C", "--no-sync"]
        made = subprocess.run([*server.prefix, *initdb, *options], cwd=folder, capture_output=True, text=True)
        assert made.returncode == 0, made.stdout + made.stderr
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


def _as_somebody(folder: Path, *files: Path) -> list[str]:
    """PostgreSQL refuses to run as root: hand the folder to another user then, and return how to become that one."""
    if os.geteuid() != 0:
        return []
    names = {entry.pw_name: entry for entry in pwd.getpwall()}
    user = names.get("postgres") or names["nobody"]
    for path in (folder, *files):
        os.chown(path, user.pw_uid, user.pw_gid)
    return ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]


def _wait_until_ready(programs: Path, server: Server, process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + 60
    ready = [programs / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(server.port)]
    while subprocess.run(ready).returncode != 0:
        assert process.poll() is None and time.monotonic() < until, log.read_text()
        time.sleep(0.1)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
