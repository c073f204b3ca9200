"""``kvsim policy check NAME``: does a policy of one's own keep the rules of its kind."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Final

from kvsim.traces.common.names import unknown

if TYPE_CHECKING:
    import argparse

    from kvsim.sim.conformance.policy_check import Finding

_WIDTH: Final = 80
_LABEL: Final = 13


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "policy",
        help="check your own policy",
        description="Check your own policies, in a file or an installed package.",
    )
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    check = actions.add_parser(
        "check",
        help="try a policy on small random runs",
        description="Run a policy on small random runs, audited, and report the first rule it "
        "breaks (exit code 1). See docs/policies.md.",
    )
    check.add_argument(
        "policy", metavar="POLICY", help="module:name (from the current folder too), or a name"
    )
    check.add_argument(
        "--kind", metavar="KIND", help="kind of the policy, if kvsim cannot find it out"
    )
    check.add_argument(
        "--runs", type=int, default=40, metavar="N", help="random runs of each check (default 40)"
    )
    check.set_defaults(handler=run)


def run(arguments: argparse.Namespace) -> int:
    """Check and report; 0 all rules kept, 1 one is broken."""
    from kvsim.sim.conformance.policy_check import KINDS, check_policy, find_kind

    if arguments.runs < 1:
        raise ValueError(f"--runs is {arguments.runs}; it must be at least 1")
    kind = arguments.kind or find_kind(arguments.policy)
    if kind not in KINDS:
        raise ValueError(unknown("--kind", kind, KINDS))
    findings = check_policy(kind, arguments.policy, num_runs=arguments.runs)
    print(f"{kind} policy {arguments.policy}")
    for finding in findings:
        print(_line(finding))
    return int(any(finding.fault for finding in findings))


def _line(finding: Finding) -> str:
    mark = "broken" if finding.fault else "ok"
    text = f"{finding.tried}: {finding.fault}" if finding.fault else finding.tried
    label = f"  {finding.name:<{_LABEL}}{mark:<8}"
    return textwrap.fill(text, _WIDTH, initial_indent=label, subsequent_indent=" " * len(label))
