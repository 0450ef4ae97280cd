"""`%ranks`."""

from __future__ import annotations

from typing import Any

from IPython.core.error import UsageError
from IPython.core.magic import Magics, line_magic, magics_class, no_var_expand
from IPython.core.magic_arguments import argument, magic_arguments

from workbench.experiments.launch.cluster import running
from workbench.magics.arguments import parse
from workbench.notebook.programs.session import Session
from workbench.parallel.cluster.cluster import Cluster
from workbench.parallel.cluster.standing import Ranks


@magics_class
class ClusterMagics(Magics):
    """The magics that look at the processes of a cluster."""

    def __init__(self, shell: Any, session: Session) -> None:
        super().__init__(shell)
        self.session = session

    @no_var_expand
    @magic_arguments()
    @argument("cluster", nargs="?", help="the name of a cluster; default: the one that `wb.distributed.cluster` gave")
    @line_magic
    def ranks(self, line: str) -> Ranks:
        """Show the ranks of a cluster: host, process, devices, steps since the program came, state.

        From Python: `cluster.ranks()`.
        """
        __tracebackhide__ = True
        args = parse(self.ranks, line)
        chosen = running() if args.cluster is None else self.session.own().get(args.cluster)
        if not isinstance(chosen, Cluster):
            what = "no cluster runs" if args.cluster is None else f"{args.cluster!r} is no cluster"
            raise UsageError(f"{what}; cluster = wb.distributed.cluster(2) starts one")
        return chosen.ranks()
