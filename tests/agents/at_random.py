"""Works for a moment and becomes an agent at random: most do their work, some misbehave. Not the same one in each run.

at_random.py SEED   the seed, the issue and how often it was tried decide
"""

import random
import sys
import time

from kit import HANDOFF, become, issue_number

GOOD = (["done"], ["done"], ["grandchild"], ["ignores_term"], ["dirty_tree"])
BAD = (
    ["blocked"],
    ["dies_mid_line"],
    ["dirty_for_ever"],
    ["done_without_commit"],
    ["exits_three"],
    ["floods", "1", "1"],
    ["fails_with", "agent_unavailable"],
    ["fails_with", "agent_quota_exhausted", "--work"],
    ["forges_handoff"],
    ["invalid_utf8"],
    ["no_sentinel"],
    ["no_sentinel", "--commit"],
    ["quotes_sentinel"],
    ["switches_branch"],
)

handoff = HANDOFF.read_text(encoding="utf-8") if HANDOFF.exists() else ""
chance = random.Random(f"{sys.argv[1]} {issue_number()} {len(handoff)}")
time.sleep(chance.uniform(0, 2))  # so that there is something to kill
become(*chance.choice(GOOD if chance.random() < 0.7 else BAD))
