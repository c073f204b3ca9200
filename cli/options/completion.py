"""What a shell completes an argument with: files, or bundled names; shtab reads it."""

from __future__ import annotations

from typing import Final


def _calls(function: str) -> dict[str, str]:
    return {"bash": function, "zsh": function}


FILES: Final = {"bash": "_shtab_compgen_files", "zsh": "_files"}
"""What shtab completes an argument with that is a file; set as its ``complete``."""
PRESETS: Final = _calls("_kvsim_presets")
MODELS: Final = _calls("_kvsim_models")
HARDWARE: Final = _calls("_kvsim_hardware")
"""The same for a bundled name or a file: functions of the script of ``kvsim completion``."""
