"""Answers to the questions of agents about stored rows, each with its proof, or refused with the reason.

An agent asks through the tools. The Model Context Protocol only carries them, over standard input and output or as a
route of the service; it needs the extra `mcp`.

- `capability`: what this folder contributes
- `tools`: every tool, and the function that calls one
- `asker`: who asks, what they may see, and the account that a name stands for
- `proof`: what every question and answer has
- `figures`: the tools of governed metrics, and where a figure comes from
- `metrics`: numbers with one formula each, and the tables they are computed from
- `metric_queries`: the statement of a question, and its rows
- `state`: accounts, what is stored, and what is wrong
- `stock`: stock that runs out, and what stock is worth
- `payouts`: what was paid out, and what is due
- `reference`: documentation, and statements of PostgreSQL
- `protocol`: the tools as an MCP server
- `endpoint`: the route `/mcp` of the service
- `commands`: `seller-platform mcp`
"""
