"""The dashboard: what a program is, what its steps do, and how training goes, on one page that also steers it.

`model` knows everything and no widget; `publisher` sends what has changed, at most ten times a second; `widget` is the
page in the notebook. What they say to each other is written down in `assets/src/README.md`.
"""
