"""Does its work and tells what it cost: `done`.

costs.py USD   the price in dollars
"""

import json
import sys

from kit import done, say, work

usage = {"tokens_in": 1000, "tokens_out": 100, "cost_usd_micro": round(float(sys.argv[1]) * 1_000_000)}
say(json.dumps({"kind": "progress", "progress": {"usage": usage}}))
work()
done()
