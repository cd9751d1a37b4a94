"""`.red/config.yaml`, the `AFK_*` variables and the flags, as one checked and frozen `Config`.

`load` is what a command calls; `parse` reads a text alone. `models` is the language, `reading` finds every fault of a
text, `loading` lays environment and flags over it, `support` refuses what this version cannot do, `keys` describes it.
Importing this package imports pydantic: commands that must be light do it only once they need a setting.
"""

from afk.config.keys import Key, describe
from afk.config.loading import DEFAULT_FILE, Loaded, Source, load
from afk.config.models import RUNNER_KINDS, AgentConfig, Check, Config, HookCommand
from afk.config.problems import Place, Problem
from afk.config.reading import RETIRED, parse
from afk.config.support import unsupported

__all__ = [
    "DEFAULT_FILE",
    "RETIRED",
    "RUNNER_KINDS",
    "AgentConfig",
    "Check",
    "Config",
    "HookCommand",
    "Key",
    "Loaded",
    "Place",
    "Problem",
    "Source",
    "describe",
    "load",
    "parse",
    "unsupported",
]
