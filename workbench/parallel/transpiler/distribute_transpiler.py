"""DistributeTranspiler: a program for one process, rewritten for many."""

from __future__ import annotations

from workbench.checkpoint.pieces import Extent
from workbench.errors import InvalidArgument, InvalidForm, InvalidType, PreconditionNotMet
from workbench.framework.notice import tell
from workbench.framework.program.guard import default_main_program, default_startup_program
from workbench.framework.program.program import Program
from workbench.framework.program.undo import restored_on_error
from workbench.graph.strategy import BuildStrategy
from workbench.parallel.transpiler.collective.modes import transpiler_of
from workbench.parallel.transpiler.config import COLLECTIVE, NCCL2, PSERVER, SMALLEST_BLOCK, DistributeTranspilerConfig
from workbench.parallel.transpiler.mark import MARK, require_unmarked
from workbench.parallel.transpiler.nccl2 import append_identity
from workbench.parallel.transpiler.ports import require_endpoints, tell_that_nobody_listens, wait_for_ports
from workbench.parallel.transpiler.server_mode.fingerprint import ATTRIBUTE as SERVED
from workbench.parallel.transpiler.server_mode.fingerprint import fingerprint
from workbench.parallel.transpiler.server_mode.geo import begin_with_servers, geo_server, push_changes
from workbench.parallel.transpiler.server_mode.layout import GEO, Layout, laid_out
from workbench.parallel.transpiler.server_mode.rate import begin_counters, counters, counts_steps
from workbench.parallel.transpiler.server_mode.server import ServerProgram, require_gradients_together
from workbench.parallel.transpiler.server_mode.startup import (
    geo_startup,
    parameters_at,
    pull_at_start,
    require_initialised,
    server_startup,
)
from workbench.parallel.transpiler.server_mode.trainer import drop_updates, exchange_with_servers
from workbench.runtime.comm.mpi.world import is_started_by_mpi

_DEFAULT = "127.0.0.1:6174"


class DistributeTranspiler:
    """Rewrites programs.

    In *pserver* mode (the default) trainers compute gradients and servers update parameters: every process calls
    `transpile` with its number, then a trainer runs `get_trainer_program()`, a server what
    `get_pserver_programs(endpoint)` gives. In *nccl2* mode the program stays, and ParallelExecutor is given
    `num_trainers` and `trainer_id`. In *collective* mode the program has operators of its own that
    exchange gradients, or parameters.

    Other than in Paddle 1.8.5 one transpiler gives programs of trainers and of servers in any order, one synchronous
    trainer trains, parameters are cut into blocks also where gradients are clipped or decay, and a `lookup_table` whose
    gradient is sparse leaves no copy of its table at the trainers.

    Args:
        config: how; a `DistributeTranspilerConfig` of defaults if None.

    Raises:
        InvalidForm: `min_block_size` is below 8192 (an `AssertionError` in Paddle).

    Example:
        >>> from workbench import fluid
        >>> x, y = fluid.data("x", [None, 4]), fluid.data("y", [None, 1])
        >>> loss = fluid.layers.mean(fluid.layers.square_error_cost(fluid.layers.fc(x, 1), y))
        >>> updates, _ = fluid.optimizer.SGD(0.1).minimize(loss)
        >>> transpiler = DistributeTranspiler()
        >>> transpiler.transpile(trainer_id=0, pservers="127.0.0.1:6174", trainers=2)
        >>> [op.type for op in transpiler.get_trainer_program(wait_port=False).global_block().ops][-6:]
        ['send', 'send_barrier', 'recv', 'recv', 'fetch_barrier']
    """

    def __init__(self, config: DistributeTranspilerConfig | None = None) -> None:
        self.config = DistributeTranspilerConfig() if config is None else config
        if not isinstance(self.config, DistributeTranspilerConfig):
            raise InvalidType(f"DistributeTranspiler takes a DistributeTranspilerConfig, got {config!r}")
        smallest = self.config.min_block_size
        if smallest < SMALLEST_BLOCK:
            raise InvalidForm(f"DistributeTranspilerConfig.min_block_size is at least {SMALLEST_BLOCK}, got {smallest}")
        self._layout: Layout | None = None

    def transpile(
        self,
        trainer_id: int,
        program: Program | None = None,
        pservers: str = _DEFAULT,
        trainers: int | str = 1,
        sync_mode: bool = True,
        startup_program: Program | None = None,
        current_endpoint: str = _DEFAULT,
    ) -> None:
        """Rewrite `program` and `startup_program` in place.

        Args:
            trainer_id: number of this trainer, from 0. program, startup_program: the default ones if None.
            pservers: addresses of the servers, `ip:port`, with commas between.
            trainers: how many trainers; in nccl2 and collective modes their addresses, with commas between.
            sync_mode: trainers wait for each other, and servers apply the mean of their gradients; else servers apply
                each gradient as it comes. Give `config.sync_mode`, too.
            current_endpoint: in nccl2 and collective modes the address of this process.

        Raises:
            InvalidArgument: a number or an address that does not fit, an unknown collective mode.
            InvalidForm: settings that exclude each other. Unimplemented: a clip by the norm of all gradients, which
                no server has.
            PreconditionNotMet: the program was transpiled before, or updates nothing; or `startup_program` is another
                one's.
        """
        main = default_main_program() if program is None else program
        startup = default_startup_program() if startup_program is None else startup_program
        require_unmarked(main)
        mode = self.config.mode
        self.config.require_consistent()
        if mode != PSERVER:
            self._tell_of_ports()
        if self.config.use_hierarchical_allreduce:
            reason = BuildStrategy.effect("use_hierarchical_allreduce").reason
            tell(f"DistributeTranspilerConfig.use_hierarchical_allreduce = True has no effect: {reason}")
        with restored_on_error(main, startup):
            if mode == NCCL2:
                self._transpile_nccl2(trainer_id, trainers, current_endpoint, startup, False, main)
            elif mode == COLLECTIVE:
                self._transpile_collective(
                    self.config.collective_mode, trainer_id, trainers, current_endpoint, startup, main, False
                )
            else:
                self._transpile_pserver(trainer_id, pservers, trainers, sync_mode, startup, main)
            main.attributes[MARK] = mode

    def _transpile_nccl2(
        self,
        trainer_id: int,
        trainers: int | str,
        current_endpoint: str,
        startup_program: Program | None = None,
        wait_port: bool = True,
        main_program: Program | None = None,
    ) -> None:
        main = default_main_program() if main_program is None else main_program
        startup = default_startup_program() if startup_program is None else startup_program
        if isinstance(trainer_id, bool) or not isinstance(trainer_id, int) or trainer_id < 0:
            raise InvalidArgument(f"trainer_id is the number of a trainer, an int >= 0, got {trainer_id!r}")
        endpoints = require_endpoints("trainers", trainers)  # nothing listens there: MPI has started all of them
        append_identity(startup, main, self.config, trainer_id, endpoints)

    def _transpile_collective(
        self,
        collective_mode: str | None,
        trainer_id: int,
        trainers: int | str,
        current_endpoint: str,
        startup_program: Program | None = None,
        main_program: Program | None = None,
        wait_port: bool = True,
    ) -> None:
        main = default_main_program() if main_program is None else main_program
        startup = default_startup_program() if startup_program is None else startup_program
        endpoints = require_endpoints("trainers", trainers)
        transpiler = transpiler_of(collective_mode, self.config.nccl_comm_num)
        transpiler.transpile(startup, main, trainer_id, endpoints, current_endpoint, wait_port=False)

    def _transpile_pserver(
        self, trainer_id: int, pservers: str, trainers: int | str, waits: bool, startup: Program, main: Program
    ) -> None:
        if isinstance(trainers, bool) or not isinstance(trainers, int) or trainers < 1:
            raise InvalidArgument(f"in pserver mode trainers is how many there are, an int >= 1, got {trainers!r}")
        if not 0 <= trainer_id < trainers:
            raise InvalidArgument(f"trainer_id is in [0, {trainers}), got {trainer_id!r}")
        endpoints = require_endpoints("pservers", pservers)
        self._origin, self._origin_startup = main.clone(), startup.clone()
        layout = laid_out(main, self.config, endpoints, trainer_id, trainers, waits)
        if self.config.enable_dc_asgd and layout.adds_up:
            raise InvalidForm("DistributeTranspilerConfig.enable_dc_asgd=True needs sync_mode=False")
        require_initialised(startup, layout)
        require_gradients_together(main.global_block(), layout)
        self._layout, self._main, self._startup, self._is_trimmed = layout, main, startup, False
        main.attributes[SERVED] = startup.attributes[SERVED] = self._fingerprint = fingerprint(main, layout)
        if waits != self.config.sync_mode and not self.config.half_async:
            tell(
                f"DistributeTranspiler: trainers {'wait' if waits else 'do not wait'} for each other, as "
                f"transpile(sync_mode={waits}) says; DistributeTranspilerConfig.sync_mode={self.config.sync_mode} says "
                "otherwise; set both"
            )
        if layout.mode == GEO:
            push_changes(main, layout)
            begin_with_servers(startup, layout)
            return
        exchange_with_servers(main, layout)
        if not layout.waits and counts_steps(self._origin.global_block()):
            begin_counters(startup, layout)
        pull_at_start(startup, layout)

    def get_trainer_program(self, wait_port: bool = True) -> Program:
        """The program of this trainer: the one that was transpiled, without its updates, which servers do.

        Args:
            wait_port: wait until all servers can be reached, if the config says so, too, `FLAGS_rpc_deadline`
                milliseconds at most. Ranks of MPI have nothing to wait for: their first exchange does.

        Raises:
            PreconditionNotMet: nothing was transpiled for servers. ExecutionTimeout: a server cannot be reached.
        """
        layout = self._require_layout()
        if not self._is_trimmed and layout.mode != GEO:
            drop_updates(self._main, self._startup)
        self._is_trimmed = True
        if wait_port and self.config.wait_port:
            self._wait_for_servers(layout)
        return self._main

    def _wait_for_servers(self, layout: Layout) -> None:
        if is_started_by_mpi():
            self._tell_of_ports()
        else:
            wait_for_ports(layout.endpoints)

    def _tell_of_ports(self) -> None:
        """A notice to who has asked for waiting where nobody listens."""
        if self.config.wait_port and self.config.is_given("wait_port"):
            tell_that_nobody_listens("DistributeTranspilerConfig.wait_port = True")

    def get_pserver_program(self, endpoint: str) -> Program:
        """The program of a server; `get_pserver_programs` gives its startup program, too.

        Raises:
            PreconditionNotMet: nothing was transpiled for servers. InvalidArgument: there is no such server.
        """
        tell("get_pserver_program is deprecated: get_pserver_programs(endpoint) gives both programs of a server")
        return self._server(endpoint)[0]

    def get_pserver_programs(self, endpoint: str) -> tuple[Program, Program]:
        """Program and startup program of a server.

        Raises:
            PreconditionNotMet: nothing was transpiled for servers. InvalidArgument: there is no such server.
        """
        return self._server(endpoint)

    def get_startup_program(
        self, endpoint: str, pserver_program: Program | None = None, startup_program: Program | None = None
    ) -> Program:
        """The startup program of a server.

        Args:
            pserver_program: has no influence. startup_program: in place of the one that was transpiled.
        """
        return self._server(endpoint, startup_program)[1]

    def _held_at(self, endpoint: str) -> dict[str, Extent]:
        """What a server keeps: of each of its variables, which rows of which variable of the program that is."""
        layout, block = self._require_layout(), self._origin.global_block()
        if layout.mode == GEO:
            kept, counting = parameters_at(layout, endpoint), []
        else:
            server = ServerProgram(self._origin, layout, endpoint)
            kept, counting = server.kept, [name for name in counters(layout.trainers) if name in server.home.vars]
        variables = {name: block.var(name) for name in kept}
        held = {
            own.name: own.extent(name, variables[name].shape)
            for name, owned in kept.items()
            for own in owned
            if variables[name].persistable
        }
        return held | {name: Extent(name) for name in counting}

    def _server(self, endpoint: str, startup: Program | None = None) -> tuple[Program, Program]:
        layout = self._require_layout()
        startup = self._origin_startup if startup is None else startup
        if layout.mode == GEO:
            program = geo_server(layout, endpoint)
            starting = geo_startup(startup, program, layout, endpoint)
        else:
            server = ServerProgram(self._origin, layout, endpoint)
            program, starting = server.program, server_startup(startup, server)
        program.attributes[SERVED] = self._fingerprint
        return program, starting

    def _require_layout(self) -> Layout:
        if self._layout is None:
            raise PreconditionNotMet("call DistributeTranspiler.transpile(…) with servers (mode 'pserver') first")
        return self._layout
