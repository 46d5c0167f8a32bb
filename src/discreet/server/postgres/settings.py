"""Settings of a connection: those that clients expect, and the terms of questions (discreet.epsilon and its like)."""

from collections.abc import Iterator
from types import MappingProxyType

from discreet.errors import InvalidParameter
from discreet.exact import integer, rational

SETTINGS = MappingProxyType(
    {
        "server_version": "15.0",
        "server_version_num": "150000",
        "server_encoding": "UTF8",
        "client_encoding": "UTF8",
        "application_name": "",
        "datestyle": "ISO, MDY",
        "intervalstyle": "postgres",
        "timezone": "UTC",
        "integer_datetimes": "on",
        "standard_conforming_strings": "on",
        "is_superuser": "off",
        "default_transaction_read_only": "off",
        "transaction_read_only": "off",
        "in_hot_standby": "off",
        "session_authorization": "",
        "search_path": "public",
        "extra_float_digits": "1",
        "transaction_isolation": "read committed",
        "default_transaction_isolation": "read committed",
        "max_identifier_length": "63",
        "max_index_keys": "32",
        "client_min_messages": "notice",
        "bytea_output": "hex",
        "statement_timeout": "0",
        "lock_timeout": "0",
        "idle_in_transaction_session_timeout": "0",
        "row_security": "on",
        "block_size": "8192",
        "lc_collate": "C.UTF-8",
        "lc_ctype": "C.UTF-8",
        "lc_messages": "C.UTF-8",
        "jit": "off",
        "ssl": "on",
        "password_encryption": "scram-sha-256",
    }
)
"""What a session starts with."""

OWN = MappingProxyType(
    {
        "discreet.epsilon": "",
        "discreet.delta": "",
        "discreet.error": "",
        "discreet.groups": "",
        "discreet.rows": "",
        "discreet.confidence": "",
        "discreet.intervals": "off",
        "discreet.readonly_budget": "off",
    }
)
"""The terms of questions; empty is not stated."""

REPORTED = (
    "server_version", "server_encoding", "client_encoding", "application_name", "DateStyle", "IntervalStyle",
    "TimeZone", "integer_datetimes", "standard_conforming_strings", "is_superuser", "session_authorization",
    "default_transaction_read_only", "in_hot_standby",
)  # fmt: skip
"""Of these, clients are told at the start, and whenever they change."""

_FIXED = frozenset({"server_version", "server_version_num", "server_encoding", "integer_datetimes", "is_superuser",
                    "session_authorization", "discreet.budget"})  # fmt: skip
_ON, _OFF = ("on", "true", "yes", "1", "t"), ("off", "false", "no", "0", "f")
_LONGEST = 1_000
_MOST = 200


class Settings:
    """The settings of one connection.

    >>> settings = Settings()
    >>> settings.set("discreet.epsilon", "0.5")
    >>> settings.stated("discreet.epsilon"), settings.stated("discreet.delta")
    ('0.5', None)
    """

    def __init__(self, **start: str) -> None:
        self._start = {**SETTINGS, **OWN, **start}
        self._values: dict[str, str] = {}
        self._before: dict[str, str | None] = {}

    def value(self, name: str) -> str:
        """The value of a setting, as SHOW tells it."""
        if name not in self._values and name not in self._start:
            raise InvalidParameter("SHOW", name, "a setting", f"there are {', '.join(OWN)}, discreet.budget")
        return self._values.get(name, self._start.get(name, ""))

    def stated(self, name: str) -> str | None:
        """The value of a term, or None where none is stated."""
        return self.value(name) or None

    def is_on(self, name: str) -> bool:
        """Whether a switch is on."""
        return self.value(name) == "on"

    def everything(self) -> dict[str, str]:
        """All settings."""
        return {**self._start, **self._values}

    def set(self, name: str, value: str | None, *, local: bool = False) -> None:
        """Change a setting; None is what the session started with. A local one is undone with `end_transaction`."""
        if name in _FIXED:
            raise InvalidParameter("SET", name, "a setting that can be changed")
        if name.startswith("discreet.") and name not in OWN:
            raise InvalidParameter("SET", name, f"one of {', '.join(OWN)}")
        before = self._values.get(name)
        if value is None:
            self._values.pop(name, None)
        else:
            self._values[name] = self._checked_value(name, value)
        if local:
            self._before.setdefault(name, before)
        else:
            self._before.pop(name, None)

    def start_with(self, name: str, value: str) -> None:
        """A setting that was stated as the session began: what RESET and DISCARD go back to.

        >>> settings = Settings()
        >>> settings.start_with("discreet.readonly_budget", "on")
        >>> settings.set("discreet.readonly_budget", "off")
        >>> settings.reset()
        >>> settings.value("discreet.readonly_budget")
        'on'
        """
        self.set(name, value)
        self._start[name] = self._values.pop(name)

    def _checked_value(self, name: str, value: str) -> str:
        if len(value) > _LONGEST or (name not in self._start and len(self._values) >= _MOST):
            raise InvalidParameter("SET", name, f"at most {_MOST} settings of {_LONGEST} characters each")
        return _checked(name, value.strip("'"))

    def end_transaction(self) -> None:
        """Undo what was set for a transaction alone."""
        for name, value in self._before.items():
            if value is None:
                self._values.pop(name, None)
            else:
                self._values[name] = value
        self._before.clear()

    def reset(self) -> None:
        """Everything as the session started with it."""
        self._values.clear()
        self._before.clear()

    def reported(self) -> Iterator[tuple[str, str]]:
        """What clients are told."""
        for name in REPORTED:
            yield name, self.value(name.casefold())


def _checked(name: str, value: str) -> str:
    """A value in the form in which it is kept; one that a term cannot have is refused at once."""
    match name:
        case "discreet.intervals" | "discreet.readonly_budget":
            if value.casefold() not in _ON + _OFF:
                raise InvalidParameter(name, value, "on or off")
            return "on" if value.casefold() in _ON else "off"
        case "discreet.epsilon" if value:
            rational(value, name, above=0)
        case "discreet.delta" | "discreet.confidence" if value:
            rational(value, name, above=0, below=1)
        case "discreet.groups" | "discreet.rows" if value:
            integer(int(value) if value.isdecimal() else value, name, at_least=1)  # type: ignore[arg-type]
        case "discreet.error" if value:
            from discreet.sql.plan.planner import WantedError

            WantedError.of(value)
        case "datestyle" if not {part.strip().casefold() for part in value.split(",")} <= {"iso", "mdy", "dmy", "ymd"}:
            raise InvalidParameter(name, value, "ISO: dates are written in no other style")
        case "datestyle":
            return SETTINGS["datestyle"]
        case "intervalstyle" if value.casefold() != "postgres":
            raise InvalidParameter(name, value, "postgres: intervals are written in no other style")
        case "client_encoding" if value.upper().replace("-", "") not in ("UTF8", "UNICODE", "SQL_ASCII", "AUTO"):
            raise InvalidParameter(name, value, "UTF8")
        case "client_encoding":
            return "UTF8"
        case _:
            pass
    return value
