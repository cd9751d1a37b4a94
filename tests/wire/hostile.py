"""Text that attacks: pieces that mean something to a renderer, a server, a terminal or our own parser."""

from __future__ import annotations

from hypothesis import strategies as st

# Put together here, so that no scanner takes this file for a leak.
TOKENS = {
    "github": "gh" + "p_" + "a1B2" * 9,
    "github, installation": "gh" + "s_" + "12345_" + "eyJhbGciOi" * 3 + ".eyJpc3MiOiJnaXRo" + ".c2lnbmF0dXJlLXNpZw",
    "github, fine grained": "github" + "_pat_" + "11ABCDEFG0" * 5,
    "gitlab": "gl" + "pat-" + "x1Y2z3-_" * 3,
    "anthropic": "sk-" + "ant-api03-" + "Ab1_" * 20,
    "openai": "sk-" + "proj-" + "Ab1-" * 12,
    "openai, old": "sk-" + "aB3" * 16,
    "openrouter": "sk-" + "or-v1-" + "0123456789abcdef" * 4,
    "google": "AI" + "za" + "SyA-1_b" * 5,
    "google, oauth": "ya" + "29." + "a0AfB_by" * 5,
    "aws": "AK" + "IA" + "IOSFODNN7EXAMPLE",
    "slack": "xo" + "xb-" + "123456789012-abcDEF",
    "npm": "np" + "m_" + "a1B2c3" * 6,
    "pypi": "pypi-" + "AgE" + "IcHlwaS5vcmc" * 6,
    "stripe": "sk" + "_live_" + "4eC39HqLyjWDarjtT1zdp7dc",
    "jwt": "ey" + "JhbGciOiJIUzI1NiJ9.ey" + "JzdWIiOiIxMjM0In0.dBjftJeZ4CVP-mB92K27",
}
BEGIN, END = "-----BEGIN RSA " + "PRIVATE KEY-----", "-----END RSA " + "PRIVATE KEY-----"

PIECES = (
    *(
        "@team",
        "@",
        "#1",
        "#",
        "Closes #1",
        "GH-1",
        "gh-",
        "1",
        "a",
        "word ",
        " ",
        "\t",
        "\u200b",
        "&#64;",
        "&#",
        "64;",
        "&lt;",
    ),
    *("\n", "\n\n", "\r\n", "\r", "\u2028", "\x85", "\0", "\x1b[31m", "\x1b]", "\x07", "\x1b", "\u202e", "\ud800"),
    *("<details", "</details>", "\n</details>\n", "< / details", "<summary", "<!--", "<!", "<pre", "<table>", "<", ">"),
    *("`", "```", "\n```\n", "~~~", "`" * 90, "***", "…", " · ", ".", "-", "_", "/", "[skip", "ci]", "["),
    *("https://", "ssh://", "u:p@", "github.com", "/o/r/issues/", "Authorization: Bearer ", BEGIN, END, "A" * 20),
    *TOKENS.values(),
)
HOSTILE = st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=14).map("".join)
