"""The tables of docs/SCALING.md."""
