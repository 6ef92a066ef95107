"""The developers' tools: `python3 -m tools.NAME --help` in the project's folder."""
