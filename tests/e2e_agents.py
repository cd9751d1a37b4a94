"""The real coding agents, end to end: `scripts/e2e-agents [NAME …] [--case CASE] [--repeat N] [--optional NAME …]`.

Pinned versions from npm work for a scripted model on loopback, in a network namespace without an outside where we may
make one: `afk run` on a real remote, to the envelope. After each case nothing that the agent started may be left.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import gitkit
from drainkit import Place, ended, reach, status_of
from modelserver import Failure, Model, Script, Step, serve

from afk import keeper

INSTALL_S = 90.0
AT_ONCE = 2
KEY = "sk-fake-0123456789"
ALONE = "AFK_E2E_ALONE"

COMMIT = "git add -A && git commit -q -m 'feat: the work'"
DONE, BLOCKED = Step("All done.\n<promise>DONE</promise>"), Step("Who decides?\n<promise>BLOCKED</promise>")
QUOTA = Failure(
    429, "insufficient_quota", "You exceeded your current quota, please check your plan and billing details."
)
BROKEN = Failure(500, "server_error", "The server had an error while processing your request.")
DENIED = Failure(401, "invalid_api_key", "Incorrect API key provided.")


@dataclass(frozen=True)
class Case:
    """What the model plays, and how the attempt must end."""

    script: Script
    outcome: str


def server_of(folder: Path) -> str:
    """What the agent leaves running, and is found by: nothing else on this machine sleeps so long."""
    return f"sleep 86399.{zlib.crc32(str(folder).encode())}"


def cases(folder: Path, agent: str) -> dict[str, Case]:
    work = (
        Step("I look at the repository first.", "git ls-files"),
        Step("Now I write the file.", "echo hello > hello.txt"),
        Step("A server for my tests.", f"(setsid {server_of(folder)} >/dev/null 2>&1 &) ; echo serving"),
        Step("Committing.", COMMIT),
    )
    waits = f"touch {folder}/at.$PPID; sleep 600"
    return {
        "success": Case(Script((*work, DONE)), "done"),
        "blocked": Case(Script((work[0], work[2], BLOCKED)), "blocked"),
        "nosentinel": Case(Script((*work, Step("I am finished."))), "no-sentinel"),
        "kill": Case(Script((*work, Step("Waiting.", waits))), "no-sentinel"),
        "stop": Case(Script((*work, Step("Waiting.", waits))), "infra"),
        "hang": Case(Script((*work, DONE), Failure(hang=True), 3), "stalled"),
        # opencode asks again for as long as it is cut off: once is enough to see that.
        "cut": Case(Script((*work, DONE), Failure(cut=True, times=1), 2), "done")
        if agent == "opencode"
        else Case(Script((*work, DONE), Failure(cut=True), 2), "runner-transient"),
        "broken": Case(Script(work, BROKEN, 2), "runner-transient"),
        "denied": Case(Script(work, DENIED), "infra"),
        "quota": Case(Script(work, QUOTA), "exhausted"),
    }


@dataclass(frozen=True)
class Program:
    """A real agent: its package, its file below `node_modules`, and what tells it where the model is."""

    package: str
    version: str
    binary: str
    prepare: Callable[[Path, str], Mapping[str, str]]
    model: str

    def installed(self) -> Path:
        """The program, from a cache; raises `subprocess.SubprocessError` when npm cannot install it in time."""
        cache = Path(os.environ.get("AFK_E2E_CACHE") or Path.home() / ".cache" / "afk-e2e")
        folder = cache / f"{self.package.rpartition('/')[2]}-{self.version}"
        program = folder / "node_modules" / self.binary
        if not program.exists():
            making = folder.with_name(f"{folder.name}.{os.getpid()}")
            words = ["npm", "install", "--no-audit", "--no-fund", "--silent", "--prefix", str(making)]
            making.mkdir(parents=True)
            try:
                subprocess.run([*words, f"{self.package}@{self.version}"], check=True, timeout=INSTALL_S)
                shutil.rmtree(folder, ignore_errors=True)
                making.rename(folder)
            finally:
                shutil.rmtree(making, ignore_errors=True)
        return program


def _codex(home: Path, address: str) -> Mapping[str, str]:
    (home / "codex").mkdir()
    (home / "codex/config.toml").write_text(
        f'model_provider = "loop"\n[model_providers.loop]\nname = "loop"\nbase_url = "{address}/v1"\n'
        'env_key = "OPENAI_API_KEY"\nwire_api = "responses"\nrequest_max_retries = 1\nstream_max_retries = 1\n'
    )
    return {"OPENAI_API_KEY": KEY, "CODEX_HOME": str(home / "codex")}


def _opencode(home: Path, address: str) -> Mapping[str, str]:
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "loop",
        "options": {"baseURL": f"{address}/v1", "apiKey": KEY},
        "models": {"test-model": {"name": "test", "limit": {"context": 100000, "output": 4000}}},
    }
    (home / "opencode.json").write_text(json.dumps({"provider": {"loop": provider}}))
    return {"OPENCODE_CONFIG": str(home / "opencode.json"), "OPENCODE_DISABLE_MODELS_FETCH": "1"}


def _gemini(home: Path, address: str) -> Mapping[str, str]:
    (home / ".gemini").mkdir()
    (home / ".gemini/settings.json").write_text(
        json.dumps({"security": {"auth": {"selectedType": "gemini-api-key"}}, "general": {"maxAttempts": 2}})
    )
    return {"GEMINI_API_KEY": KEY, "GOOGLE_GEMINI_BASE_URL": address}


PROGRAMS = {
    "codex": Program("@openai/codex", "0.171.0", ".bin/codex", _codex, "test-model"),
    "opencode": Program("opencode-ai", "1.18.33", ".bin/opencode", _opencode, "loop/test-model"),
    "gemini": Program("@google/gemini-cli", "0.61.0", ".bin/gemini", _gemini, "gemini-2.5-flash"),
}


# ── One case ────────────────────────────────────────────────────────────────────────────────────────────────────────


def run_case(folder: Path, name: str, program: Path, case_name: str) -> str:
    """Empty when everything is as it must be, else what is not."""
    folder.mkdir()
    home = folder / "home"
    home.mkdir()
    # gemini takes GIT_* out of what its tools see, so that only this file tells them who commits.
    (home / ".gitconfig").write_text("[user]\n\tname = A Person\n\temail = person@example.invalid\n")
    every = cases(folder, name)
    case = every[case_name]
    unasked = {"none": case.script} if case_name == "denied" else {}
    with serve({key: each.script for key, each in every.items()} | unasked) as model, gitkit.alone(home):
        origin = gitkit.make_origin(folder / "origin.git", {"README.md": "A project.\n"})
        clone = gitkit.clone(gitkit.url(origin), folder / "clone")
        with Place(origin, clone) as place:
            found = _drained(place, model, name, program, home, folder, case_name, case)
    left = [*_alive(server_of(folder)), *_alive(str(folder))]
    return found or (f"left running: {left}" if left else "")


def _drained(
    place: Place, model: Model, name: str, program: Path, home: Path, folder: Path, case_name: str, case: Case
) -> str:
    settings = PROGRAMS[name].prepare(home, model.address)
    place.environ |= settings | {"PATH": f"{program.parent}:{os.environ['PATH']}"}
    place.configure(
        runner=name,
        agents={name: {"model": PROGRAMS[name].model}},
        agent={"env_allow": list(settings), "kill_s": 5},
        bounds={"silence_kill_s": 12 if case.script.failure and case.script.failure.hang else 90, "wall_clock_s": 180},
        landing={"mend_checks": False},
    )
    if case_name in ("success", "denied"):
        [answers] = [check for check in place.afk("doctor").payload["checks"] if check["id"] == "answers"]
        if (answers["status"] == "pass") != (case_name == "success") or PROGRAMS[name].version not in answers[
            "summary"
        ]:
            return f"afk doctor says {answers}"
    place.file(1, "Say hello", f"script: {case_name}\n")
    process = place.start("run", "--json", "--once")
    if case_name in ("kill", "stop"):
        reach(process, lambda: list(folder.glob("at.*")), "the agent at work", limit_s=90)
        if case_name == "kill":
            for tree in place.attempt(1).glob("runs/*-agent/tree"):
                os.kill(json.loads(tree.read_text().splitlines()[1])["pid"], signal.SIGKILL)
        else:
            process.send_signal(signal.SIGTERM)
            time.sleep(0.5)  # a second one in the same moment would be the same one
            process.send_signal(signal.SIGTERM)
    ran = ended(process)
    envelopes = place.envelopes(1)
    if case_name == "stop":
        told = [json.loads(place.attempt(1).joinpath("attempt.json").read_text())["steps"]["ended"]["outcome"]]
    else:
        told = list(ran.outcomes.values()) if ran.stdout.strip() else [ran.stderr[-600:]]
    if told != [case.outcome]:
        said = "".join(
            path.read_text(errors="replace")[-1500:]
            for path in place.clone.glob(".red/tmp/workers/*/*/runs/*-agent/???")
        )
        return f"ended as {told}, not {case.outcome}\n{said}\n{ran.stderr[-800:]}"
    if len(envelopes) != 1:
        return f"{len(envelopes)} envelopes"
    if (status_of(envelopes[0]) == "done") != (case.outcome == "done"):
        return f"the envelope says {status_of(envelopes[0])}"
    if case.outcome == "done" and place.on_trunk("hello.txt") != "hello":
        return "its work is not on the trunk"
    if place.claims():
        return f"a claim is left: {place.claims()}"
    return f"a key is in the envelope: {envelopes[0]}" if KEY in envelopes[0] else ""


def _alive(word: str) -> list[str]:
    """The command lines of other living processes that have this word in them."""
    found = []
    for row in keeper.process_table().values():
        line = keeper.read_bytes(f"/proc/{row.birth[0]}/cmdline").replace(b"\0", b" ").decode("utf-8", "replace")
        if word in line and row.birth[0] != os.getpid() and not row.is_dead:
            found.append(line.strip())
    return found


# ── All of them ─────────────────────────────────────────────────────────────────────────────────────────────────────


def go_alone() -> None:
    """Begin anew where there is no network but loopback, if this user may; returns otherwise."""
    if os.environ.get(ALONE) or os.geteuid() != 0 or shutil.which("unshare") is None or shutil.which("ip") is None:
        return
    if subprocess.run(["unshare", "-n", "true"], check=False, capture_output=True).returncode == 0:
        os.environ[ALONE] = "1"
        again = ["unshare", "-n", "sh", "-c", 'ip link set lo up && exec "$@"', "sh", sys.executable, *sys.argv]
        os.execvp("unshare", again)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which agents: {', '.join(PROGRAMS)} (default: all)")
    parser.add_argument("--case", action="append", default=[], help="these cases alone")
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--optional", action="append", default=[], help="one that may be missing; it is counted")
    options = parser.parse_args()
    programs, skipped = {}, []
    for name in options.names or PROGRAMS:
        try:
            programs[name] = PROGRAMS[name].installed()
        except (OSError, subprocess.SubprocessError) as error:
            if name not in options.optional:
                print(f"{name} could not be installed: {error}", file=sys.stderr)
                return 1
            skipped.append(name)
    go_alone()
    print(f"network: {'loopback alone' if os.environ.get(ALONE) else 'as it is'}")
    failed = [line for line in _all(programs, options.case, options.repeat) if line]
    for name in skipped:
        print(f"SKIPPED {name}: npm could not install it")
    print(f"{len(failed)} failed, {len(skipped)} of {len(programs) + len(skipped)} agents skipped")
    return 1 if failed else 0


def _all(programs: Mapping[str, Path], wanted: list[str], repeat: int) -> list[str]:
    with tempfile.TemporaryDirectory(prefix="afk-e2e-agents-") as base, ProcessPoolExecutor(AT_ONCE) as pool:
        told = pool.map(_one, [(name, program, Path(base), wanted, repeat) for name, program in programs.items()])
        return [line for lines in told for line in lines]


def _one(asked: tuple[str, Path, Path, list[str], int]) -> list[str]:
    """Every case of one agent, one after the other."""
    name, program, base, wanted, repeat = asked
    results = []
    for k in range(repeat):
        for case_name in wanted or cases(base, name):
            began = time.monotonic()
            wrong = run_case(base / f"{name}-{case_name}-{k}", name, program, case_name)
            took = time.monotonic() - began
            print(f"{'FAIL' if wrong else 'ok  '} {name}/{case_name} {took:.1f} s {wrong}", flush=True)
            results.append(wrong)
    return results


if __name__ == "__main__":
    sys.exit(main())
