"""Does the work, talks about quotas and status codes all the time, ends with a strange code: `done` (R53, R55)."""

from kit import done, say, work

say("HTTP 429 Too Many Requests: usage limit reached, quota exceeded, try again in 5 hours")
say("ERROR 500 Internal Server Error; 401 Unauthorized; overloaded_error 529; timeout")
say('{"type": "error", "error": {"type": "rate_limit_error", "message": "429"}}')
work()
say("The test for error 402 (billing) passes now.")
done()
raise SystemExit(429 % 256)
