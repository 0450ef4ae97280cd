"""Faults by name: those that guard what users rely on, and those no test can tell from the right code."""

from __future__ import annotations

from dataclasses import dataclass

from tests.mutation.changes import Change


@dataclass(frozen=True)
class Named:
    """A fault that has to be noticed.

    Attributes:
        name: what it does. area: whose tests are asked.
        function: its qualified name, or the end of it. before: the code, however it is written.
        after: what stands there instead.
    """

    name: str
    area: str
    function: str
    before: str
    after: str = "pass"


@dataclass(frozen=True)
class Equivalent:
    """A fault of the rules that changes nothing anybody can rely on.

    Attributes:
        function: its qualified name. before, after: in the form `ast.unparse` gives.
        reason: why nothing changes.
        number: which of several equal ones in the function.
    """

    function: str
    before: str
    after: str
    reason: str
    number: int = 0

    def is_about(self, change: Change) -> bool:
        mine = self.function, self.before, self.after, self.number
        return mine == (change.function, change.before, change.after, change.number)


NAMED: tuple[Named, ...] = (
    # Memory
    Named("what is fed for the scope may be written over", "planning", "takeovers",
          "self._begin(value, request.is_fed_aside(value))", "self._begin(value)"),
    Named("what is fed for the scope is not kept", "planning", "add_given",
          "END if self.request.is_fed_aside(value) else -1", "-1"),
    Named("staged values are not kept", "planning", "_with_uses", "last[spots[value].piece] = END"),
    Named("staged values may be written over", "planning", "_hold", "content.kept |= value in self.request.staged"),
    Named("the scope's own storage may be written over", "planning", "takeovers",
          "not request.lies_in_scope(value)", "True"),
    Named("values other threads read may be written over", "planning", "_is_free",
          "content.readers <= {thread} and content.touched <= {thread}", "True"),
    Named("values read later may be written over", "planning", "_is_free", "content.read_until > position", "False"),
    Named("memory is given back too early", "planning", "PiecesInOrder.__init__",
          "held[room][0][0] < pieces[number].first", "held[room][0][0] <= pieces[number].first + 2"),
    Named("views of the scope's storage are handed on", "planning", "_may_be_shown",
          "not request.lies_in_scope(known.base_of(source))", "True"),
    Named("no layout is assigned", "planning", "assign_layouts",
          "assigned_strides(node, value, request.readers, request.specs)", "None"),
    Named("results never take over memory", "planning", "find_takeovers", "request.in_place", "False"),
    Named("memory is never used again", "planning", "PiecesInOrder.offsets", "room.take(nbytes)", "None"),
    Named("gradients are not made where their sums are", "planning", "make_buckets",
          "spots[contribution] = (number, offset)"),
    # Open sizes
    Named("conditions are not looked at", "open sizes", "Decisions.are_alike",
          "bool((np.where(self._less, numbers < 0, numbers == 0) == self._holds).all())", "True"),
    Named("what had to be known is not noted", "open sizes", "_as_int", "self.sizes.decide(self - self.example, '=')"),
    Named("pieces that take turns are thought apart", "open sizes", "may_meet",
          "self.room is not None and self.room == other.room and apart", "False"),
    Named("sizes are thought to want the threads they have", "open sizes", "is_preferred",
          "self._preferences.are_alike(numbers[self._preferred]) and self._is_scheduled_so(numbers, num_threads)",
          "True"),
    Named("feeds that differ in what is not open fit", "open sizes", "sizes_of", "same and rest == wanted", "True"),
    Named("storage that was replaced is not noticed by open bindings", "open sizes", "FeedForm.fit",
          "[binding for binding in self._open if binding.is_current()]", "list(self._open)"),
    # Threads
    Named("a thread does not wait for another", "planning", "_waits", "waits.setdefault(node, []).append(other)"),
    Named("one thread does everything", "planning", "shared_schedule",
          "threads < 2 or sum(work.values()) < 4 * start", "True"),
    Named("a failure is told to nobody", "threads", "attempt", "pool.failed = True"),
    Named("a flag stays up after a failure", "threads", "lower", "self._lock.acquire(False)"),
    Named("nobody waits for workers after a failure", "threads", "run", "self._drain()"),
    # Binding
    Named("storage that was replaced is not noticed", "binding", "_is_there",
          "find(name, place) is not tensor or self._stored(tensor) is not array", "False"),
    Named("a step is never one call", "binding", "whole_step",
          "first is None or last is None or layout is None or binding.writes.staged", "True"),
    Named("objects of a step are kept", "binding", "forget", "cell.value = None"),
    Named("what is fed for the scopes alone is dropped", "binding", "_to_copy", "id(tensor) not in written", "False"),
    # Feeds and results
    Named("a feed that is missing is not told", "feeding", "_divided", "self._require(arrays)"),
    Named("results of a commit are copied before it", "feeding", "__init__",
          "any(_is_late(binding, value) for value in values)", "False"),
    # Lowering
    Named("results share memory that is used again", "lowering", "_owned",
          "result.copy() if result.base is not None or any(result is a for a in flat(ins)) else result", "result"),
    # Transactions
    Named("an op may write what the scope keeps", "transaction", "_guarded", "seen.flags.writeable = False"),
    Named("a user's update runs in the commit", "planning", "_can_commit", "node not in native", "False"),
    Named("the scope gets staged memory of the step", "transaction", "setting",
          "np.array(new)", "new"),
    Named("a commit that fails is not taken to its end", "transaction", "_finish", "task.complete", "True"),
    Named("step counters stand still", "transaction", "StepRunner.load", "self._counters(binding)", "[]"),
    Named("changes of a commit are not counted", "binding", "commit", "calls += binding.writes.changed.counting()"),
    Named("a stale step of the serial executor commits", "transaction", "InterpretedStep.commit",
          "tensor.version == version", "True"),
    Named("the scope gets memory of the step", "transaction", "_own", "value.copy() if borrowed else value", "value"),
    Named("variables of a layer that failed stay", "transaction", "restore",
          "_drop_newest(block, len(block.vars) - n_vars)"),
    Named("operators of a layer that failed stay", "transaction", "restore", "del block.ops[n_ops:]"),
    # Replicas
    Named("all devices share one copy", "replicas", "distribute", "name in together", "True"),
    Named("a replica that is written is not noticed", "replicas", "still_holds",
          "bucket.written[0] != written or bucket.words[0] - counted != steps", "False"),
    Named("replicas are taken for the same unseen", "replicas", "_find_shards",
          "_hold_the_same(buckets, powers)", "True"),
    Named("no update is shared", "replicas", "_find_shards", "_hold_the_same(buckets, powers)", "False"),
    Named("no sum is left to updates", "replicas", "_can_be_fused",
          "ref is None or ref.dtype != _FLOAT or plan.refs.get(contribution) is not ref or result.persistable", "True"),
    Named("devices with rates of their own share updates", "tape", "fused_update",
          "_require_one_rate(writer, shards)"),
)  # fmt: skip

EQUIVALENT: tuple[Equivalent, ...] = (
    Equivalent("Merger.__init__", "1", "2",
               "two devices' values are then joined piece by piece instead of by np.concatenate: the same result"),
    Equivalent("write_update", "isinstance(a, np.ndarray) and a.dtype == held[0].dtype", "a.dtype == held[0].dtype",
               "operands without memory are refused before a rule is asked, so all are arrays or None"),
    Equivalent("_joined_shape", "shape or (1,)", "shape",
               "only values without elements come here, and what has no dimensions has one"),
    Equivalent("_same_bits", "False", "True",
               "buckets of the same parameters have one shape, and where devices share storage only one updates it"),
    Equivalent("Replicas.distribute", "sorted(set(names) - self._copied)", "list(set(names) - self._copied)",
               "copies of different variables have nothing to do with each other"),
    Equivalent("joins_natively", "False", "True", "no element-wise op has a list of operands"),
    Equivalent("WholeStep._prepare", "1", "2", "NumPy takes any negative number for the dimension that follows"),
    Equivalent("StepRunner.watched_way", "LISTENERS.keys() <= BESIDE", "LISTENERS.keys() < BESIDE",
               "where they are the same, nobody is heard who wants anything else: the next question says so, too"),
    Equivalent("WorkerPool._drain", "time.monotonic() - begun > min(_STUCK, self.timeout / 2)",
               "time.monotonic() - begun >= min(_STUCK, self.timeout / 2)", "nobody waits for exactly so long"),
    Equivalent("PiecesInOrder.__init__", "sorted(in_arenas(pieces), key=lambda n: pieces[n].first)",
               "list(in_arenas(pieces))",
               "pieces are made in the order of the schedule, but for some that share with none"),
    Equivalent("OpenTape.__init__", "64", "65",
               "it only says which addresses are thought possible; the memory itself is aligned when it is taken"),
    Equivalent("WholeStep.takes", "False", "True",
               "a binding is found by the shapes and dtypes of its feeds, so it has not met one yet that it declines"),
    Equivalent("Splitter.split", "(plan := self._plans.get(tuple(map(signature_of, feed)))) is not None", "False",
               "a list of dicts finds the same plan a few lines further down, a little later"),
    Equivalent("_by_device", "sorted(queues, key=lambda p: (p < 0, p))", "list(queues)",
               "which device comes first is of no matter, and what belongs to several waits for all of them anyway"),
    Equivalent("share", "left < LATE", "left <= LATE",
               "how much is left is an estimate, and exactly so much is worth neither more nor less"),
    Equivalent("_leaders", "reversed(range(own.stop, blocks))", "list(range(own.stop, blocks))",
               "whoever comes to a block first does it; the order only keeps two threads from coming at once"),
    Equivalent("BlockGraph.read", "0", "1",
               "in the graph of a block versions only tell the values of a name apart, and no pass runs over it"),
    Equivalent("TapeWriter._finish", "reversed(late_rows)", "list(late_rows)",
               "whoever comes to a late result first makes it; the order only keeps two threads from coming at once"),
    Equivalent("WorkerPool.run", "len(tasks) == 1", "False",
               "without workers the rest of it runs the task and waits for nobody"),
    # Optimizers and checkpoints
    Equivalent("ProgramStates.make_rate", "False", "True",
               "the rate then takes the schedule it has already: whoever sets another one gives it to all rates"),
    Equivalent("Restore._fits", "False", "True", "what does not fit is a problem as well, and a problem refuses all"),
    Equivalent("Restore._fits", "False", "True",
               "what does not fit is a problem as well, and a problem refuses all", number=1),
    # Dynamic mode
    Equivalent("BackwardWalk._arrive", "self.math.add(before, gradient)", "self.math.add(gradient, before)",
               "a sum of two gradients is the same either way round"),
    Equivalent("BackwardWalk._arrive", "self.math.add(before, gradient)", "self.math.add(gradient, before)",
               "a sum of two gradients is the same either way round", number=1),
    Equivalent("_outputs", "number + k", "number - k",
               "no op saves an output that is a list, so k is 0 where it counts"),
    Equivalent("_fitted", "grad is None", "False",
               "a rule gives None for an input that wants a gradient only where by-products alone have gradients, as "
               "the statistics of a norm; those pass nothing on"),
    Equivalent("DynamicRecorder.record", "count > 2", "count >= 2",
               "ops of two tensors then go the way of all others: the same calls, a little later"),
    Equivalent("_call_of", "1", "2",
               "a step of two operands then goes the general way: the same function, a little later"),
    Equivalent("_call_of", "1", "2",
               "a step of two operands then goes the general way: the same function, a little later", 1),
    # Several processes
    Equivalent("GradientExchange.begin", "sorted(unused)", "list(unused)",
               "the buckets start in an order of their own, whichever parameter comes first"),
    Equivalent("TrainerMembers.silent", "now - self._heard[one] > seconds", "now - self._heard[one] >= seconds",
               "nobody is silent for exactly so long"),
    Equivalent("GeoExchange._change", "1", "2", "NumPy takes any negative number for the dimension that follows"),
)  # fmt: skip
