"""Ends with an AFDATA error of the code given, and exit code 0, which lies: the outcome that the code names.

fails_with.py CODE [RESETS_AT] [--work]

`agent_quota_exhausted` is `exhausted`, `agent_unavailable` `runner-transient`, `agent_unauthorized` `infra`,
`agent_unfit` `blocked`, and any other code `no-sentinel`. With `--work` it commits before it fails.
"""

import json
import sys

from kit import say, work

code, *rest = [argument for argument in sys.argv[1:] if argument != "--work"]
if "--work" in sys.argv:
    work()
error = {"code": code, "message": f"the provider said {code}"}
if rest:
    error["resets_at_rfc3339"] = rest[0]
say(json.dumps({"kind": "error", "error": error}))
