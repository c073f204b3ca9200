"""Options of a run besides its trace and its scenario, each with unit and meaning.

``simulate`` and ``compare`` take the options as keywords, the command line as ``--rate-scale`` and
the like; the manifest of a run holds them.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, TypedDict, cast

from kvsim.traces.common.names import unknown

if TYPE_CHECKING:
    from collections.abc import Mapping
    from dataclasses import Field
    from fractions import Fraction

    from kvsim.traces.adjust.closed_loop import ThinkRule

    Rate = Fraction | float | str


class SharedKeywords(TypedDict, total=False):
    """Options of all runs of a comparison, as keywords: the fields of :class:`RunOptions`."""

    assume_max_tokens: str
    step: bool
    audit: bool
    closed: bool
    think_time: str | None
    num_users: int | None
    timeout: str | None
    seed: int


class RunKeywords(SharedKeywords, total=False):
    """Options of one run, as keywords."""

    rate_scale: Rate


def about(meaning: str, *, unit: str = "", flag: str = "") -> dict[str, str]:
    """Return the metadata of an option; ``meaning`` is also its help on the command line.

    ``flag`` is its name on the command line, if it differs from the name of the field.
    """
    return {"meaning": meaning, "unit": unit, "flag": flag}


def flag_of(item: Field[object]) -> str:
    """Return the name of an option on the command line."""
    return item.metadata["flag"] or f"--{item.name.replace('_', '-')}"


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Options of one run; the constructor checks each value.

    ``rate_scale`` becomes the text of a fraction, and numbers of numpy become Python's.

    Raises
    ------
    ValueError
        For a value that an option does not take; one sentence for the user.
    """

    rate_scale: Rate = field(
        default="1",
        metadata=about(
            "divide all recorded times by X, so that requests arrive X times as fast; in a closed "
            "loop sessions start X times as fast, and think times do not change"
        ),
    )
    assume_max_tokens: str = field(
        default="model",
        metadata=about(
            "max_tokens if the trace has none: model (rest of the length), N, or factor(x)",
            unit="tokens",
        ),
    )
    step: bool = field(default=False, metadata=about("use the stepper, the reference engine"))
    audit: bool = field(default=False, metadata=about("check all invariants at every event"))
    closed: bool = field(
        default=False,
        metadata=about(
            "each turn arrives its think time after the output of the turn before it; otherwise "
            "only turns without a recorded time do",
            flag="--arrivals closed",
        ),
    )
    think_time: str | None = field(
        default=None,
        metadata=about(
            "closed loop: time from the end of an output to the next turn, if the trace has none: "
            "5s, exponential(mean=5s) or lognormal(mean=5s,sigma=1)",
            unit="a time, as text",
        ),
    )
    num_users: int | None = field(
        default=None,
        metadata=about(
            "closed loop with N users; each user sends one session after the other; "
            "the trace needs no times, and --think-time is also the pause between two "
            "sessions",
            unit="users",
            flag="--users",
        ),
    )
    timeout: str | None = field(
        default=None,
        metadata=about(
            "time after which a client gives up its request, if the trace has none (30s, 500ms, "
            "5min)",
            unit="a time, as text",
        ),
    )
    seed: int = field(default=0, metadata=about("seed of whatever is drawn (default 0)"))

    @classmethod
    def of(cls, keywords: Mapping[str, object]) -> RunOptions:
        """Return the options with these names and values.

        Raises
        ------
        ValueError
            For a value that an option does not take, and for an unknown name.
        """
        names = [item.name for item in fields(cls)]
        for name in keywords:
            if name not in names:
                raise ValueError(unknown("option", name, names))
        return cls(**cast("RunKeywords", keywords))

    def __post_init__(self) -> None:
        self._check_kinds()
        if self.num_users is not None and self.num_users < 1:
            raise ValueError(f"--users is {self.num_users}; it must be at least 1")
        plain: dict[str, object] = {
            "rate_scale": str(self.scale),
            "step": bool(self.step),
            "audit": bool(self.audit),
            "closed": bool(self.closed),
            "num_users": None if self.num_users is None else int(self.num_users),
            "seed": int(self.seed),
        }
        for name, value in plain.items():
            object.__setattr__(self, name, value)
        self._check_texts()

    def _check_kinds(self) -> None:
        """Refuse values of a wrong kind; what texts and numbers say is not read."""
        from kvsim.traces.common.arguments import (  # noqa: PLC0415 - kvsim --help needs no numpy
            check_flags,
            check_text,
            check_whole,
        )

        check_flags(step=self.step, audit=self.audit, closed=self.closed)
        check_whole("seed", self.seed, 0)
        check_text("assume_max_tokens", self.assume_max_tokens, "model")
        if self.think_time is not None:
            check_text("think_time", self.think_time, "5s")
        if self.timeout is not None:
            check_text("timeout", self.timeout, "30s")
        if self.num_users is not None:
            check_whole("num_users", self.num_users, more=", or None")

    def _check_texts(self) -> None:
        """Refuse texts that say nothing."""
        from kvsim.traces.adjust.closed_loop import ThinkRule  # noqa: PLC0415
        from kvsim.traces.adjust.max_tokens import MaxTokensRule  # noqa: PLC0415
        from kvsim.traces.adjust.patience import parse_timeout  # noqa: PLC0415

        MaxTokensRule.parse(self.assume_max_tokens)
        if self.think_time is not None:
            ThinkRule.parse(self.think_time)
        if self.timeout is not None:
            parse_timeout(self.timeout)

    @property
    def scale(self) -> Fraction:
        """How many times as fast requests arrive."""
        from kvsim.traces.adjust.rate_scale import parse_rate_scale  # noqa: PLC0415

        return parse_rate_scale(str(self.rate_scale))

    @property
    def think(self) -> ThinkRule | None:
        """Law of the think times that the trace does not record."""
        from kvsim.traces.adjust.closed_loop import ThinkRule  # noqa: PLC0415

        return None if self.think_time is None else ThinkRule.parse(self.think_time)

    @property
    def has_users(self) -> bool:
        """Whether users send the requests, whatever the times of the trace."""
        return self.num_users is not None

    def to_dict(self) -> dict[str, object]:
        """As the manifest holds them; the seed stands beside."""
        return {name: value for name, value in asdict(self).items() if name != "seed"}

    def shared(self) -> SharedKeywords:
        """Keywords of :func:`kvsim.sim.comparison.comparison.compare`."""
        values = asdict(self)
        del values["rate_scale"]
        return cast("SharedKeywords", values)
