"""Running the server: sockets, TLS, the log, and an end that finishes what was charged."""

import contextlib
import json
import logging
import os
import re
import signal
import stat
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from discreet.curator.curator import OWNER
from discreet.errors import InvalidParameter, MissingExtra
from discreet.server.service import LOG, Facts, Limits, Service
from discreet.server.session import Place, open_places
from discreet.wire import is_loopback


@dataclass(frozen=True, kw_only=True)
class Address:
    """Where a server listens, and how it proves who it is."""

    host: str = "127.0.0.1"
    port: int = 8000
    certificate: Path | None = None
    key: Path | None = None
    proxies: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    clear_text: bool = False
    postgres: int | None = None
    """The port at which PostgreSQL's protocol is spoken, if it is."""

    def check(self) -> None:
        """Refuse to send tokens and answers in the clear, but on this machine."""
        if (self.certificate is None) != (self.key is None):
            raise InvalidParameter("--tls-cert, --tls-key", "one of them", "both, or none")
        for origin in self.origins:
            if not re.fullmatch(r"https?://[^/\s?#@]+", origin):
                hint = "as browsers send it: scheme, host and port, and no / at its end"
                raise InvalidParameter("--allow-origin", origin, "an origin such as https://lab.example", hint)
        for name, path in (("--tls-cert", self.certificate), ("--tls-key", self.key)):
            if path is not None and not path.is_file():
                raise InvalidParameter(name, str(path), "a file in PEM form")
        if self.certificate is None and not is_loopback(self.host) and not (self.clear_text or self.proxies):
            hint = "or --behind-proxy ADDRESS where a proxy on a safe network does TLS, or --clear-text"
            raise InvalidParameter(
                "--host", self.host, "--tls-cert and --tls-key, since tokens would travel open", hint
            )


class JsonLines(logging.Formatter):
    """Lines of JSON: the time, the level and what the server says; of a failure, its kind.

    The words of a failure may name private values: they are for the owner's log alone (`private`).
    """

    def __init__(self, *, private: bool = False) -> None:
        super().__init__()
        self._private = private

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        facts: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname,
        }
        if isinstance(record.msg, Facts):
            facts |= record.msg
        else:
            text = record.getMessage()
            try:
                facts |= json.loads(text)
            except (ValueError, TypeError):
                facts["message"] = text
        if record.exc_info and record.exc_info[0] is not None:
            facts["reason"] = record.exc_info[0].__name__
            if self._private:
                facts["trace"] = self.formatException(record.exc_info)
        return str(Facts(facts))


def log_to(stream: Any, owner_log: Path | None = None) -> None:
    """Have the server's log written as lines of JSON, and the reasons of failures to a file for the owner's eyes."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    private = []
    if owner_log is not None:
        try:
            descriptor = os.open(owner_log, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                if stat.S_ISREG(os.fstat(descriptor).st_mode):
                    os.fchmod(descriptor, 0o600)  # it may have been there before, for everybody to read
            finally:
                os.close(descriptor)
            private = [logging.FileHandler(owner_log, encoding="utf-8")]
        except OSError as error:
            raise InvalidParameter("--owner-log", str(owner_log), f"a file to write: {error.strerror}") from None
        private[0].setFormatter(JsonLines(private=True))
    frameworks = [logging.getLogger(name) for name in ("uvicorn.error", "asyncio")]
    for logger, handlers in ((LOG, [handler]), (OWNER, [handler, *private]), *((one, [handler]) for one in frameworks)):
        logger.handlers[:] = handlers
        logger.propagate = False
        logger.setLevel(logging.INFO if logger in (LOG, OWNER) else logging.WARNING)


def exposed(places: Iterable[Place]) -> list[str]:
    """What other users of the machine can read or change, though they should not, and what to do about it.

    Whoever may write into a folder can put other files in the place of those that are in it: tokens of their own, say.
    """
    read = stat.S_IRGRP | stat.S_IROTH
    write = stat.S_IWGRP | stat.S_IWOTH
    result = dict[str, None]()
    for place in places:
        policy = place.policy
        secret = [policy.base / (policy.ledger or ""), place.tokens.path]
        private = [name for name, table in policy.catalog.tables.items() if table.private]
        secret += [policy.base / source for name, source in policy.sources.items() if name.casefold() in private]
        public = [] if policy.file is None else [policy.file]
        for path in (*secret, *public):
            with contextlib.suppress(OSError):
                if path.is_file() and path.stat().st_mode & (read | write if path in secret else write):
                    words = "read or write" if path in secret else "write"
                    how = "chmod 600" if path in secret else "chmod go-w"
                    result[f"{words} {path}: {how}"] = None
                folder = path.resolve().parent
                mode = folder.stat().st_mode
                if mode & write and not mode & stat.S_ISVTX:  # a sticky folder keeps the files of one from others
                    result[f"replace files in {folder}: chmod go-w"] = None
    return list(result)


def require_server() -> None:
    """`MissingExtra` where the extra `server` is not installed."""
    if any(find_spec(package) is None for package in ("fastapi", "uvicorn")):
        raise MissingExtra("fastapi and uvicorn", "server")


def serve(
    policies: Sequence[str], address: Address, limits: Limits | None = None, *, owner_log: Path | None = None
) -> None:
    """Open the datasets and serve them until the process is told to stop; then finish what is under way."""
    require_server()
    import uvicorn

    from discreet.server.app import create_app
    from discreet.server.connections import Connection, most_connections

    address.check()
    os.umask(0o077)
    log_to(sys.stderr, owner_log)
    service = Service(open_places(list(policies)), limits or Limits())
    try:
        door = _postgres(service, address)
        for advice in exposed(service.places.values()):
            LOG.warning("other users of this machine can %s", advice)
        config = uvicorn.Config(
            create_app(service, origins=address.origins),
            host=address.host,
            port=address.port,
            ssl_certfile=address.certificate,
            ssl_keyfile=address.key,
            proxy_headers=bool(address.proxies),
            forwarded_allow_ips=list(address.proxies),
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_keep_alive=65,
            http=Connection,
            limit_concurrency=most_connections(20_000),
            timeout_graceful_shutdown=600,
        )
        scheme = "http" if address.certificate is None else "https"
        server = _server(config, f"{scheme}://{address.host}", sorted(service.places), door)
        before = signal.signal(signal.SIGTERM, lambda *_: None)  # uvicorn raises it again once it has ended
        server.run()
        signal.signal(signal.SIGTERM, before)
    finally:
        service.close()


def _postgres(service: Service, address: Address) -> Any:
    """What listens for PostgreSQL's clients, where the address says so."""
    if address.postgres is None:
        return None
    from discreet.server.postgres.listener import Listener

    return Listener(
        service, host=address.host, port=address.postgres, certificate=address.certificate, key=address.key,
        clear_text=address.clear_text,
    )  # fmt: skip


def _server(config: Any, url: str, datasets: list[str], door: Any) -> Any:
    """A server of uvicorn that says on the log where it listens, once it does; `door` is PostgreSQL's, or None."""
    import uvicorn

    class Announcing(uvicorn.Server):
        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets)
            for server in self.servers:
                for socket in server.sockets:
                    LOG.info(json.dumps({"listening": f"{url}:{socket.getsockname()[1]}", "datasets": datasets}))
            if door is not None and not self.should_exit:
                port = await door.start()
                LOG.info(json.dumps({"listening": f"postgresql://{config.host}:{port}", "datasets": datasets}))

        async def shutdown(self, sockets: Any = None) -> None:
            if door is not None:
                await door.stop()
            await super().shutdown(sockets)

    return Announcing(config)
