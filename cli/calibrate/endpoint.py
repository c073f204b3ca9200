"""``kvsim calibrate endpoint URL``: TTFT and ITL terms of a running server."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from kvsim.cli.text.colour import harmless

if TYPE_CHECKING:
    import argparse

    from kvsim.calibrate.engine_logs.endpoint import EndpointFit

_TTFT: Final = (
    ("TTFT, a request", "ms", 1e3),
    ("TTFT, a prompt token", "us", 1e6),
    ("TTFT, a query-key pair", "ns", 1e9),
)
_ITL: Final = (
    ("ITL, a step", "ms", 1e3),
    ("ITL, a decode", "us", 1e6),
    ("ITL, a context token", "ns", 1e9),
)


def add_parser(kinds: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    parser = kinds.add_parser(
        "endpoint",
        help="fit TTFT and ITL of a running server",
        description="Send a small designed set of requests to an OpenAI-compatible server that "
        "streams, and fit the terms of TTFT and ITL. Batch and context vary "
        "separately. The server should be idle. See docs/calibration.md.",
    )
    parser.add_argument("url", metavar="URL", help="http://127.0.0.1:8000")
    parser.add_argument("--model", help="model to request (default: the first model of the server)")
    parser.add_argument(
        "--allow-remote", action="store_true", help="allow a server on another machine"
    )
    parser.add_argument(
        "--max-batch", type=int, default=16, metavar="N", help="largest batch sent (default 16)"
    )
    parser.add_argument(
        "--max-context", type=int, default=4096, metavar="N", help="longest sequence (default 4096)"
    )
    parser.add_argument(
        "--output-tokens",
        type=int,
        default=64,
        metavar="N",
        help="output tokens of each request (default 64)",
    )
    parser.add_argument(
        "--repeats",
        type=int,
        default=3,
        metavar="N",
        help="number of times that each point is sent (default 3)",
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="seed of the tokens of the prompts (default 0)"
    )
    parser.add_argument("--out", metavar="FILE", help="write the terms as JSON")
    parser.add_argument(
        "--dry-run", action="store_true", help="print the requests, and send nothing"
    )
    parser.set_defaults(handler=run)


def run(arguments: argparse.Namespace) -> int:
    """Measure, fit, print."""
    from kvsim.calibrate.engine_logs.endpoint import measure_endpoint, sweep
    from kvsim.calibrate.engine_logs.endpoint_client import EndpointClient, check_url
    from kvsim.cli.options.trace_options import check_seed
    from kvsim.cli.text.progress import Progress
    from kvsim.traces.common.files import check_file, write_file

    check_seed(arguments.seed)
    if arguments.out is not None:
        check_file(Path(arguments.out))
    url = check_url(arguments.url, allow_remote=arguments.allow_remote)
    design = sweep(
        max_batch=arguments.max_batch,
        max_context=arguments.max_context,
        output_tokens=arguments.output_tokens,
        repeats=arguments.repeats,
    )
    print(
        f"{design.num_requests} requests: prompts of {', '.join(map(str, design.alone))} alone; "
        f"{', '.join(f'{n} x {prompt}' for n, prompt in design.batches)} together"
    )
    if arguments.dry_run:
        return 0
    client = EndpointClient(url, model=arguments.model, seed=arguments.seed)
    with Progress("points") as progress:
        fit = measure_endpoint(client.send, design, progress)
    print(harmless("\n".join(_lines(fit))))
    if arguments.out is not None:
        write_file([_document(fit, url, client.model)], Path(arguments.out))
        print(f"terms written to {arguments.out}")
    return 0


def _lines(fit: EndpointFit) -> list[str]:
    from kvsim.cli.text.table import table, wrapped
    from kvsim.traces.common.text import number

    rows = [["term", "", "fitted", "+-"]]
    for terms, part in ((_TTFT, fit.ttft), (_ITL, fit.itl)):
        for (label, unit, scale), value, error in zip(
            terms, part.coefficients, part.standard_errors, strict=True
        ):
            rows.append([label, unit, number(value * scale), number(error * scale)])
    errors = f"TTFT {100 * fit.ttft.median_error:.1f} %, ITL {100 * fit.itl.median_error:.1f} %"
    return [
        "",
        *table(rows, first_width=32),
        "",
        *wrapped("median error of the points", f"{errors} (in the fit)", first_width=28),
        *wrapped("boundary", "request sent to token received, at the client", first_width=28),
    ]


def _document(fit: EndpointFit, url: str, model: str) -> str:
    import json

    names = {"ttft_s": ("base", "per_prompt_token", "per_pair")}
    names["itl_s"] = ("base", "per_decode", "per_context_token")
    document: dict[str, object] = {"url": url, "model": model}
    for (key, terms), part in zip(names.items(), (fit.ttft, fit.itl), strict=True):
        document[key] = dict(zip(terms, part.coefficients, strict=True)) | {
            "standard_errors": dict(zip(terms, part.standard_errors, strict=True)),
            "median_error": part.median_error,
        }
    return json.dumps(document, indent=1) + "\n"
