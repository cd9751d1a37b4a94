"""One issue, one attempt: start at pipeline.py."""
