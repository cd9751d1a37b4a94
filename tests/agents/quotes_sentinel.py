"""Quotes its last word in every way that is no last word, and goes away: `no-sentinel` (R43, L27)."""

import json

from kit import say

DONE = "<promise>DONE</promise>"

say(f"When I am done I will print {DONE}")
say(f"`{DONE}`")
say(f"> {DONE}")
say(f"{DONE} (soon)")
say("<promise>NO MORE TASKS</promise>")
say("```")
say(DONE)
say("```")
say("~~~text")
say(DONE)
say("~~~")
say(json.dumps({"kind": "progress", "progress": {"tool": "shell", "command": f"echo '{DONE}'"}}))
say(json.dumps({"kind": "progress", "progress": {"tool_output": f"{DONE}\n"}}))
