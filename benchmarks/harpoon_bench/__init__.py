"""The paper's tables and figures, its baselines and its metrics, and our numbers beside them.

The extra `bench` brings what this package needs. It uses the public names of the library only, as anyone could.
"""
