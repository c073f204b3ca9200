"""Wrong inputs of all kinds: one or two lines with value, choices and remedy, and exit code 2."""

from __future__ import annotations

import pytest

from kvsim.cli.main import main
from kvsim.traces import bundled_path

TRACE = str(bundled_path("chat-2k"))
S = f"simulate {TRACE}"
C = f"compare {TRACE}"
MOST_LETTERS = 320
"""Two lines of a wide terminal, or four of a narrow one."""

WRONG = [
    ("simulat x", "command 'simulat' is unknown (did you mean 'simulate'?); choices: plan"),
    ("simulate", "simulate: TRACE is missing; see kvsim simulate --help"),
    ("trace", "WHAT is missing; choices: info, reuse, convert,"),
    ("policy", "ACTION is missing; choices: check"),
    (f"{S} other.csv", "'other.csv' is one argument too many"),
    (f"{S} --limt 3", "--limt is unknown (did you mean --limit?)"),
    (f"{S} --limit abc", "--limit is 'abc'; it must be a whole number"),
    (f"{S} --limit", "--limit needs a value"),
    (f"{S} --step=3", "--step takes no value, but got '3'"),
    (f"{S} --s", "--s is short for several options: --"),
    (f"{S} --on-bad-row maybe", "--on-bad-row 'maybe' is unknown; choices: stop, skip"),
    (f"{S} --num-blocks 9 --kv-memory 1GiB", "--kv-memory and --num-blocks exclude each other"),
    (f"{S} --request-rate 3", "--request-rate is unknown (did you mean --rate?)"),
    (f"{S} --qps 3", "(did you mean --rate?)"),
    (f"{S} --num-prompts 3", "(did you mean --limit?)"),
    (f"{S} --gpu h100", "(did you mean --hardware?)"),
    (f"{S} --tensor-parallel-size 2", "(did you mean --tp?)"),
    (f"{S} --gpu-memory-utilization 0.8", "(did you mean --utilization?)"),
    (f"{S} --kv-cache-dtype fp8", "(did you mean --kv-dtype?)"),
    (f"{S} --no-enable-prefix-caching", "--set engine.enable_prefix_caching=VALUE?)"),
    (f"{S} --eviction-policy lru", "(did you mean --set eviction.policy=VALUE?)"),
    (f"{S} --policy lru", "eviction.policy=VALUE or --set queue.policy=VALUE?)"),
    (f"{S} --zzz 3", "--zzz is unknown; see kvsim simulate --help"),
    (f"{S} --set engine", "is not of the form table.key=value, such as engine.max_num_seqs=128"),
    (f"{S} --set block-size=3", "(did you mean 'engine.block_size'?)"),
    (f"{S} --set engin.block_size=3", "table 'engin' is unknown (did you mean 'engine'?)"),
    (f"{S} --set engine.blok_size=3", "(did you mean 'engine.block_size'?); keys of [engine]:"),
    (f"{S} --set retention.policy=full", "(did you mean 'retention.kind'?)"),
    (f"{S} --set eviction.kind=lru", "(did you mean 'eviction.policy'?)"),
    (f"{S} --set predictor.policy=oracle", "(did you mean 'predictor.kind'?)"),
    (f"{S} --set allocator.type=paged", "(did you mean 'allocator.kind'?)"),
    (f"{S} --set preemption.policy=last", "(did you mean 'preemption.victim'?)"),
    (f"{S} --set engine.watermark=0.1", "(did you mean 'batching.watermark'?)"),
    (f"{S} --set queue.policy=lru", "('lru' is a value of eviction.policy)"),
    (f"{S} --set allocator.kind=radix", "('radix' is a value of allocator.prefix)"),
    (f"{S} --set batching.policy=statik", "(did you mean 'static'?)"),
    (f"{S} --set engine.max_num_seqs=abc", "'abc': expected a whole number >= 1, or 'none'"),
    (f"{S} --model qwen3-8", "(did you mean 'qwen3-8b'?); bundled: "),
    (f"{S} --hardware h100", "(did you mean 'h100-pcie' or 'h100-sxm'?); bundled: "),
    (f"{S} --scenario vllm-0.3", "(did you mean 'vllm-0.32' or 'vllm-0.32-sync'?); presets: "),
    (f"{S} --kv-dtype fp9", "'fp9' is unknown (did you mean 'fp8'?); choices: bf16, "),
    (f"{S} --set cost.source=datashet", "(did you mean 'datasheet'?)"),
    (f"{S} --format vidr", "(did you mean 'vidur'?)"),
    (f"{S} --slo tttf=3s", "(did you mean 'slo.ttft'?); keys of [slo]: ttft, tpot, e2e"),
    (f"{C} --allocators pagd", "'pagd' is unknown (did you mean 'paged'?)"),
    (f"{C} --preset lever", "--preset 'lever' is unknown (did you mean 'levers'?)"),
    (f"{C} --vary eviction.polcy=lru,fifo", "(did you mean 'eviction.policy'?)"),
    ("list thing", "'thing' is unknown; choices: policies, presets, models, hardware,"),
    ("schema sumary", "document 'sumary' is unknown (did you mean 'summary'?)"),
    ("policy check examples.keep_shared:keep_shared --kind evict", "(did you mean 'eviction'?)"),
    (f"trace reuse {TRACE} --policies lruu", "--policies 'lruu' is unknown (did you mean 'lru'?)"),
]


@pytest.mark.parametrize(("line", "said"), WRONG, ids=[line[-30:] for line, _ in WRONG])
def test_a_wrong_input_gets_a_sentence(
    line: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code = main(line.split())
    except SystemExit as end:
        code = int(end.code or 0)
    printed = capsys.readouterr()
    error = printed.err.splitlines()[-1]
    assert code == 2
    assert printed.out == ""
    assert said in error, error
    assert error.startswith("kvsim")
    assert len(error) <= MOST_LETTERS
    assert "usage:" not in printed.err
    assert "Traceback" not in printed.err
