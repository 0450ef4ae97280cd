"""What the project itself gives to a step: layers, optimizers, gradients; and what gives something else at every look.

A part is text: statements that set it up, a line of the step, and changes of what it reads.
"""

from __future__ import annotations

from typing import NamedTuple


class Part(NamedTuple):
    """Part of a step.

    Attributes:
        line: of the step; `{n}` is a number, of which there may be another one at every place.
        setup: statements before the step is made. changes: (kind, statement).
        state: expressions of tensors that the step may change.
    """

    line: str
    setup: str = ""
    changes: tuple[tuple[str, str], ...] = ()
    state: tuple[str, ...] = ()


_OPTION = "option of a layer"
_MODE = "train or eval"

PARTS: dict[str, Part] = {
    "LeakyReLU": Part(
        "y = leaky(y - 3)", "leaky = wb.nn.LeakyReLU(0.5)", ((_OPTION, "leaky._negative_slope = {n} / 8"),)
    ),
    "Hardtanh": Part(
        "y = hard(y)",
        "hard = wb.nn.Hardtanh(-9.0, 9.0)",
        (
            (_OPTION, "hard.max = {n} + 0.5"),
            (_OPTION, "hard.min = -{n}"),
        ),
    ),
    "Softmax": Part("y = y + soft(y * 0.01)", "soft = wb.nn.Softmax()", ((_OPTION, "soft._axis = {n} % 2"),)),
    "Conv2D": Part(
        "y = y + conv(y.reshape([2, 1, 2, 2])).sum()",
        "wb.seed(1)\nconv = wb.nn.Conv2D(1, 2, 2, padding=2)",
        (
            (_OPTION, "conv._stride = [1 + {n} % 2] * 2"),
            (_OPTION, "conv._padding = {n}"),
            (_OPTION, "conv._dilation = [1 + {n} % 2] * 2"),
            ("parameter set", "conv.bias.set_value(np.full(2, {n}, 'float32'))"),
            ("parameter replaced", "conv.bias = conv.create_parameter([2], is_bias=True)"),
        ),
        ("conv.weight", "conv.bias"),
    ),
    "Linear": Part(
        "y = y + linear(y)",
        "wb.seed(2)\nlinear = wb.nn.Linear(4, 4)",
        (
            ("parameter set", "linear.bias.set_value(np.full(4, {n}, 'float32'))"),
            ("parameter replaced", "linear.bias = linear.create_parameter([4], is_bias=True)"),
            ("forward of an object", "linear.forward = lambda x: x * {n}"),
            ("forward of our class", "with_forward(linear, wb.nn.Linear, lambda self, x: x * {n})"),
            ("layer replaced", "linear = wb.nn.LeakyReLU({n} / 8)"),
            ("hook", ("linear.register_forward_post_hook(lambda layer, inputs, output: output * {n})")),
            ("hook", ("linear.register_forward_pre_hook(lambda layer, inputs: (inputs[0] * {n},))")),
            ("trainable", "linear.bias.stop_gradient = not linear.bias.stop_gradient"),
            ("copy of a layer", ("linear = copy.deepcopy(linear); linear.bias.set_value(np.full(4, {n}, 'float32'))")),
        ),
        ("linear.weight", "linear.bias"),
    ),
    "BatchNorm1D": Part(
        "y = y + norm(y)",
        "norm = wb.nn.BatchNorm1D(4)",
        (
            (_MODE, "norm.eval()"),
            (_MODE, "norm.train()"),
            (_MODE, "norm.training = not norm.training"),
            (_OPTION, "norm._momentum = {n} / 8"),
            (_OPTION, "norm._epsilon = 0.1 * {n}"),
            (_OPTION, "norm._use_global_stats = True"),
            ("buffer set", "norm._mean.set_value(np.full(4, {n}, 'float32'))"),
        ),
        ("norm.weight", "norm._mean", "norm._variance"),
    ),
    "LayerNorm": Part(
        "y = y + norm(y)",
        "norm = wb.nn.LayerNorm(4)",
        (
            (_OPTION, "norm._epsilon = 0.1 * {n}"),
            ("attribute of ours set to None", "norm.bias = None"),
        ),
    ),
    "Dropout": Part(
        "y = drop(y)",
        "drop = wb.nn.Dropout(0.0)",
        (
            (_OPTION, "drop.p = 1.0"),
            (_OPTION, "drop.mode = 'downscale_in_infer'"),
            (_MODE, "drop.eval()"),
        ),
    ),
    "fluid layer": Part(
        "y = old(y)",
        "old = wb.nn.BatchNorm(4, act='relu')",
        (
            (_OPTION, "old._act = None"),
            (_OPTION, "old._use_global_stats = True"),
            (_OPTION, "old._momentum = {n} / 8"),
            (_MODE, "old.eval()"),
        ),
        ("old.weight", "old._mean"),
    ),
    "recurrent cell": Part(
        "y = y + cell(y * 0.01)[0]",
        "wb.seed(3)\ncell = wb.nn.SimpleRNNCell(4, 4)",
        (
            (_OPTION, "cell.activation = 'relu'"),
            ("parameter set", "cell.bias_ih.set_value(np.full(4, {n}, 'float32'))"),
        ),
        ("cell.weight_ih",),
    ),
    "Sequential": Part(
        "y = chain(y)",
        "wb.seed(4)\nchain = wb.nn.Sequential(wb.nn.Linear(4, 4), wb.nn.LeakyReLU(0.25))",
        (
            ("layer added", "chain.add_sublayer('more{n}', wb.nn.LeakyReLU({n} / 8))"),
            ("layer replaced", "chain[1] = wb.nn.LeakyReLU({n} / 8)"),
            ("layer deleted", "del chain[1]"),
            ("layer put back", "chain._sub_layers['1'] = wb.nn.ReLU()"),
        ),
        ("chain[0].weight",),
    ),
    "list of layers": Part(
        "for each in stack:\n    y = each(y)",
        "stack = wb.nn.LayerList([wb.nn.ReLU6(), wb.nn.LeakyReLU(0.5)])",
        (
            ("layer added", "stack.append(wb.nn.LeakyReLU({n} / 8))"),
            ("layer replaced", "stack[0] = wb.nn.ReLU()"),
            ("layer added", "stack.insert(0, wb.nn.LeakyReLU({n} / 8))"),
        ),
    ),
    "user's layer": Part(
        "y = net(y)",
        (
            "\n"
            "class Below(wb.nn.Layer):\n"
            "    factor = 2.0\n"
            "    def forward(self, x):\n"
            "        return x * self.factor + self.shift()\n"
            "    def shift(self):\n"
            "        return 0.5\n"
            "\n"
            "class Between(Below):\n"
            "    def forward(self, x):\n"
            "        return super().forward(x) + 1\n"
            "\n"
            "class Net(Between):\n"
            "    def __init__(self):\n"
            "        super().__init__()\n"
            "        self.scale = 1.5\n"
            "        self.options = {'power': 1}\n"
            "        self.inner = wb.nn.LeakyReLU(0.25)\n"
            "\n"
            "    def forward(self, x):\n"
            "        return super().forward(self.inner(x)) * self.scale * self.options['power']\n"
            "\n"
            "net = Net()\n"
        ),
        (
            ("attribute set", "net.scale = {n}"),
            ("class attribute set", "Below.factor = {n}"),
            ("attribute of a subclass", "Net.factor = {n}"),
            ("attribute over a class's", "net.factor = {n}"),
            ("method of a base replaced", "Below.shift = lambda self: {n}"),
            ("method of a base replaced", "Below.forward = lambda self, x: x * {n}"),
            ("method of a base replaced", "Between.forward = lambda self, x: x * {n}"),
            ("forward of a class", "Net.forward = lambda self, x: x * {n}"),
            ("forward of an object", "net.forward = lambda x: x * {n}"),
            ("method of an object", "net.shift = lambda: {n}"),
            ("entry set", "net.options['power'] = {n}"),
            ("layer replaced", "net.inner = wb.nn.LeakyReLU({n} / 8)"),
            ("copy of a layer", "net = copy.deepcopy(net); net.scale = {n}"),
            ("copy of a layer", "net = copy.copy(net); net.scale = {n}"),
            ("__call__ of a class", "Net.__call__ = lambda self, x: x * {n}"),
            ("class of an object", "net.__class__ = Between"),
        ),
    ),
    "user's layer of ours": Part(
        "y = own(y)",
        (
            "\n"
            "wb.seed(5)\n"
            "class Own(wb.nn.Linear):\n"
            "    scale = 1.5\n"
            "    def forward(self, x):\n"
            "        return super().forward(x) * self.scale\n"
            "own = Own(4, 4)\n"
        ),
        (
            ("class attribute set", "Own.scale = {n}"),
            ("attribute over a class's", "own.scale = {n}"),
            ("forward of our class", "with_forward(own, wb.nn.Linear, lambda self, x: x * {n})"),
            ("parameter replaced", "own.bias = own.create_parameter([4], is_bias=True)"),
        ),
        ("own.weight",),
    ),
    "tensor with a gradient": Part(
        "((V * y).sum() * 0.1).backward(retain_graph=True)\nif True:\n    y = y * V",
        "V = wb.to_tensor([1.0, 2.0, 3.0, 4.0], stop_gradient=False)",
        (
            ("gradient None", "V.grad = None"),
            ("gradient cleared", "V.clear_grad()"),
            ("gradient set", "V.grad = wb.to_tensor([{n}.0] * 4)"),
            ("tensor set", "V.set_value(np.full(4, {n}, 'float32'))"),
            ("tensor replaced", "V = wb.to_tensor([{n}.0] * 4, stop_gradient=False)"),
            ("trainable", "V.stop_gradient = not V.stop_gradient"),
            ("hook", ("V.register_hook(lambda grad: grad * {n}) if not V.stop_gradient else None")),
        ),
        ("V",),
    ),
    "tensor written in place": Part(
        "T.add_(y.sum(axis=0) * 0.01)\ny = y + T",
        "T = wb.zeros([4])",
        (
            ("tensor set", "T.set_value(np.full(4, {n}, 'float32'))"),
            ("tensor replaced", "T = wb.ones([4])"),
        ),
        ("T",),
    ),
    "default dtype": Part(
        "y = y + wb.ones([4]).astype(y.dtype).sum()", "", (("default dtype", "wb.set_default_dtype('float64')"),)
    ),
    "grad mode": Part("with wb.no_grad():\n    y = y * 2"),
    "global that appears": Part(
        "y = y * (appeared if 'appeared' in globals() else 1)", "", (("global appears", "appeared = {n}"),)
    ),
    "global that is tried": Part(
        "y = y * of_tried()",
        "def of_tried():\n    try:\n        return tried\n    except NameError:\n        return 1\n",
        (("global appears", "tried = {n}"),),
    ),
    "builtin that is hidden": Part("y = y * len([1, 2])", "", (("global over a builtin", "len = lambda values: {n}"),)),
    "builtin that changes": Part("y = y * abs(-2)", "", (("builtin replaced", "builtins.abs = lambda value: {n}"),)),
    "globals()": Part("y = y * globals().get('looked_up', 1)", "", (("global appears", "looked_up = {n}"),)),
    "environment": Part(
        "y = y * int(os.environ.get('FUZZ', '1'))", "", (("environment", "os.environ['FUZZ'] = '{n}'"),)
    ),
    "file": Part(
        "y = y * float(open(FILE).read())",
        "open(FILE, 'w').write('2.0')",
        (("file", "open(FILE, 'w').write('{n}.0')"),),
    ),
    "isinstance": Part(
        "y = y * (2 if isinstance(kind, Big) else 3)",
        "class Small:\n    pass\n\nclass Big(Small):\n    pass\n\nkind = Small()",
        (
            ("class of an object", "kind.__class__ = Big"),
            ("object replaced", "kind = Big()"),
        ),
    ),
    "type comparison": Part(
        "y = y * (2 if type(kind) is int else 3)", "kind = 1", (("object replaced", "kind = 1.0"),)
    ),
    "bool that is an int": Part("y = y * (2 if kind is True else 3)", "kind = 1", (("equal object", "kind = True"),)),
    "sign of zero": Part(
        "y = y * (2 if math.copysign(1, zero) > 0 else 3)", "zero = 0.0", (("equal object", "zero = -0.0"),)
    ),
    "identity": Part(
        "y = y * (2 if one_list is other_list else 3)",
        "one_list, other_list = [1], [1]",
        (("equal object", "other_list = one_list"),),
    ),
    "module": Part(
        "import settings_of_case as settings\ny = y * settings.v",
        "sys.modules['settings_of_case'] = module_of({n})",
        (
            ("module replaced", "sys.modules['settings_of_case'] = module_of({n})"),
            ("attribute of a module", "sys.modules['settings_of_case'].v = {n}"),
        ),
    ),
    "counter": Part(
        "y = y * count_up()",
        ("counted = 1\ndef count_up():\n    global counted\n    counted += 1\n    return counted % 5\n"),
    ),
    "list that grows": Part("grown.append(1)\ny = y * len(grown)", "grown = []"),
    "cache": Part(
        "y = y * cached(3)",
        "@lru_cache\ndef cached(n):\n    return n * base\n\nbase = 2",
        (
            ("global set", "base = {n}"),
            ("cache emptied", "cached.cache_clear()"),
        ),
    ),
    "recursion": Part(
        "y = y * depth_of(limit)",
        "limit = 3\ndef depth_of(n):\n    return 1 if n <= 0 else 1 + depth_of(n - 1)\n",
        (("global set", "limit = {n}"),),
    ),
    "generator": Part(
        "y = y * sum(each for each in pieces() if each > least)",
        "least, most = 1, 4\ndef pieces():\n    yield from range(most)\n",
        (
            ("global set", "most = {n} + 1"),
            ("global set", "least = {n} % 3"),
        ),
    ),
    "set": Part(
        "y = y * (2 if 3 in members else 5) * len(members)",
        "members = {1, 2}",
        (
            ("set changed", "members.add({n})"),
            ("set changed", "members.discard({n})"),
        ),
    ),
    "decorated": Part(
        "y = y * decorated()",
        (
            "def doubled(function):\n"
            "    @wraps(function)\n"
            "    def inner(*args):\n"
            "        return function(*args) * times\n"
            "    return inner\n"
            "\n"
            "times = 2\n"
            "\n"
            "@doubled\n"
            "def decorated():\n"
            "    return 1.5\n"
        ),
        (
            ("global set", "times = {n}"),
            ("wrapped function", "decorated.__wrapped__.__code__ = (lambda: {n}).__code__"),
        ),
    ),
    "code replaced": Part(
        "y = y * coded()",
        "def coded():\n    return 2\n",
        (
            ("code of a function", "coded.__code__ = (lambda: {n}).__code__"),
            ("global set", "coded = lambda: {n}"),
        ),
    ),
    "string formatted": Part(
        "y = y * len(f'{shown}')",
        ("class Shown:\n    def __str__(self):\n        return 'a' * self.n\n\nshown = Shown()\nshown.n = 3"),
        (
            ("attribute set", "shown.n = {n}"),
            ("method replaced", "Shown.__str__ = lambda self: 'b' * {n}"),
        ),
    ),
    "operators": Part(
        "y = y * (+amount + amount * 2 + amount[0] + len(amount) + bool(amount) + int(amount))",
        (
            "class Amount:\n"
            "    n = 2\n"
            "    def __pos__(self): return self.n\n"
            "    def __mul__(self, other): return self.n * other\n"
            "    def __getitem__(self, key): return self.n\n"
            "    def __len__(self): return self.n\n"
            "    def __int__(self): return self.n\n"
            "\n"
            "amount = Amount()"
        ),
        (
            ("attribute over a class's", "amount.n = {n}"),
            ("class attribute set", "Amount.n = {n}"),
            ("method replaced", "Amount.__mul__ = lambda self, other: {n}"),
            ("method appears", "Amount.__bool__ = lambda self: False"),
        ),
    ),
    "comparison": Part(
        "y = y * (2 if level == 3 else 5)",
        ("class Level:\n    n = 3\n    def __eq__(self, other): return self.n == other\n\nlevel = Level()"),
        (("attribute over a class's", "level.n = {n}"),),
    ),
    "sorted by a key": Part(
        "y = y * sorted([1, 2, 3], key=by)[0]",
        "direction = 1\ndef by(n):\n    return n * direction\n",
        (
            ("global set", "direction = -direction"),
            ("global set", "by = lambda n: (n + {n}) % 3"),
        ),
    ),
    "map": Part(
        "y = y * sum(map(mapped_by, range(3)))",
        "power = 1\nmapped_by = lambda n: n ** power + 1",
        (
            ("global set", "power = {n} % 3"),
            ("global set", "mapped_by = lambda n: n * {n} + 1"),
        ),
    ),
    "del": Part(
        "y = y * getattr(bare, 'extra', 1)",
        "class Bare:\n    pass\n\nbare = Bare()",
        (
            ("attribute appears", "bare.extra = {n}"),
            ("attribute deleted", "del bare.extra"),
            ("class attribute appears", "Bare.extra = {n}"),
        ),
    ),
    "hasattr": Part(
        "y = y * (3 if hasattr(bare, 'extra') else 1)",
        "class Bare:\n    pass\n\nbare = Bare()",
        (
            ("attribute appears", "bare.extra = {n}"),
            ("attribute deleted", "del bare.extra"),
            ("class attribute appears", "Bare.extra = {n}"),
        ),
    ),
    "weak reference that dies": Part(
        "y = y * (3 if weakly() is None else 1)",
        "class Bare:\n    pass\n\nstrong = Bare()\nweakly = weakref.ref(strong)",
        (("object gone", "strong = None"),),
    ),
    "warnings": Part("y = y * len(warnings.filters[:0]) + y"),
    "dir": Part(
        "y = y * len([name for name in dir(bare) if not name.startswith('_')])",
        "class Bare:\n    one = 1\n\nbare = Bare()",
        (
            ("attribute appears", "bare.extra = {n}"),
            ("class attribute appears", "Bare.extra = {n}"),
        ),
    ),
    "subclasses": Part(
        "y = y * (1 + len(Root.__subclasses__()))",
        "class Root:\n    pass\n",
        (("class appears", "Sub{n} = type('Sub{n}', (Root,), {})"),),
    ),
    "registry": Part(
        "y = y * registry['make']()",
        "registry = {'make': lambda: 2}",
        (("entry set", "registry['make'] = lambda: {n}"),),
    ),
    "random state": Part(
        "y = y * (1 + random.getstate()[1][0] % 3)", "random.seed(1)", (("seed", "random.seed({n})"),)
    ),
    "same tensor": Part("y = y * (2 if x is z else 3)"),
    "same tensor, gradient": Part("y = y + x * z"),
}

# How a step trains: lines at its end, what is set up, and changes.
TRAINING: dict[str, Part] = {
    "no training": Part("return y"),
    "backward": Part(
        "loss = (y * W).mean()\nloss.backward()\nreturn loss",
        "",
        (
            ("gradient None", "W.grad = None"),
            ("gradient cleared", "W.clear_grad()"),
            ("gradient set", "W.grad = wb.to_tensor([{n}.0] * 4)"),
        ),
    ),
    "SGD": Part(
        "loss = (y * W).mean()\nloss.backward()\nOPT.step()\nOPT.clear_grad()\nreturn loss",
        "OPT = wb.optimizer.SGD(0.01, parameters=[W])",
        (
            ("learning rate", "OPT.set_lr({n} / 64)"),
            ("learning rate attribute", "OPT._learning_rate = {n} / 64"),
            ("clip set", "OPT._grad_clip = wb.nn.ClipGradByNorm({n} / 8)"),
            ("regularizer set", "OPT._regularizer = wb.regularizer.L2Decay({n} / 8)"),
            ("rate of a parameter", "W.optimize_attr['learning_rate'] = {n} / 4"),
            ("regularizer of a parameter", "W.regularizer = wb.regularizer.L2Decay({n} / 8)"),
            ("trainable", "W.stop_gradient = not W.stop_gradient"),
            ("parameter set", "W.set_value(np.full(4, {n}, 'float32'))"),
        ),
    ),
    "clipped Momentum": Part(
        "loss = (y * W).mean()\nloss.backward()\nOPT.step()\nOPT.clear_grad()\nreturn loss",
        (
            "CLIP = wb.nn.ClipGradByGlobalNorm(0.5)\n"
            "OPT = wb.optimizer.Momentum(0.01, 0.9, parameters=[W], grad_clip=CLIP)"
        ),
        (
            ("clip's norm", "CLIP.clip_norm = {n} / 16"),
            ("clip's norm", "OPT._grad_clip.clip_norm = {n} / 16"),
            ("clip of a parameter", "W.need_clip = not W.need_clip"),
            ("learning rate", "OPT.set_lr({n} / 64)"),
            ("optimizer replaced", "OPT = wb.optimizer.SGD({n} / 64, parameters=[W])"),
            (
                "parameter replaced",
                ("W = wb.create_parameter([4], 'float32', default_initializer=wb.nn.initializer.Constant({n}))"),
            ),
            ("copy of an optimizer", "OPT = copy.copy(OPT); OPT.set_lr({n} / 64)"),
        ),
    ),
    "Adam with a schedule": Part(
        "loss = (y * W).mean()\nloss.backward()\nOPT.step()\nOPT.clear_grad()\nreturn loss",
        ("RATE = wb.optimizer.lr.StepDecay(0.01, step_size=2)\nOPT = wb.optimizer.Adam(RATE, parameters=[W])"),
        (
            ("schedule", "RATE.step()"),
            ("schedule's option", "RATE.base_lr = {n} / 64; RATE.step()"),
            ("schedule's option", "RATE.gamma = {n} / 8; RATE.step(4)"),
            ("schedule replaced", "OPT.set_lr_scheduler(wb.optimizer.lr.StepDecay({n} / 64, step_size=2))"),
            ("state set", "OPT.set_state_dict(OPT.state_dict())"),
        ),
    ),
    "clear_grad first": Part(
        "OPT.clear_grad()\nloss = (y * W).mean()\nloss.backward()\nOPT.step()\nreturn loss",
        "OPT = wb.optimizer.SGD(0.01, parameters=[W])",
        (
            ("gradient None", "W.grad = None"),
            ("learning rate", "OPT.set_lr({n} / 64)"),
        ),
    ),
    "minimize": Part(
        ("loss = (y * W).mean()\nloss.backward()\nOPT.minimize(loss)\nOPT.clear_gradients()\nreturn loss"),
        "OPT = wb.optimizer.SGD(0.01, parameters=[W])",
        (
            ("parameter appended", "OPT._groups.parameters.append(W2)"),
            ("learning rate", "OPT.set_lr({n} / 64)"),
        ),
    ),
    "two losses": Part(
        (
            "(y * W).mean().backward(retain_graph=True)\n"
            "loss = (y * W).sum()\n"
            "loss.backward()\n"
            "OPT.step()\n"
            "OPT.clear_grad()\n"
            "return [loss, y.mean()]"
        ),
        "OPT = wb.optimizer.SGD(0.001, parameters=[W])",
    ),
    "a dict of results": Part("return {'mean': y.mean(), 'y': y, 'n': 3}"),
}

# What gives something else at every look: in dynamic mode it does, so a recorded step must not give the same for ever.
CHANCE: dict[str, str] = {
    "time": "time.time_ns() % 997",
    "time as a float": "time.time() % 1.0",
    "perf_counter": "time.perf_counter_ns() % 997",
    "monotonic": "time.monotonic_ns() % 997",
    "process_time": "time.process_time_ns() % 99991",
    "datetime.now": "datetime.now().microsecond",
    "datetime.utcnow": "datetime.now(timezone.utc).microsecond",
    "gmtime": "(time.gmtime().tm_sec + time.time() % 1.0)",
    "uuid4": "uuid.uuid4().int % 997",
    "uuid1": "uuid.uuid1().int % 9973",
    "secrets": "secrets.randbelow(997)",
    "token_bytes": "secrets.token_bytes(2)[0] + secrets.token_bytes(2)[1] * 256",
    "urandom": "int.from_bytes(os.urandom(2), 'big')",
    "SystemRandom": "random.SystemRandom().randrange(997)",
    "random": "random.random()",
    "from random": "randrange(997)",
    "random method kept": "drawn()",
    "own Random": "own_random.random()",
    "new Random": "Random().random()",
    "np.random": "float(np.random.rand())",
    "np.random module": "float(numpy_random.standard_normal())",
    "default_rng": "float(np.random.default_rng().random())",
    "kept default_rng": "float(own_rng.random())",
    "RandomState": "float(np.random.RandomState().rand())",
    "shuffle": "shuffled(list(range(97)))[0] + shuffled(list(range(97)))[0] * 100",
    "object's id": "id(fresh_object()) % 99991",
    "next of a counter": "next(tick)",
    "iterator in a list": "next(ticks[0])",
    "allocated blocks": "len(os.listdir(growing_folder()))",
    "thread's name": "int(thread_name().rpartition('-')[2].split()[0])",
    "pop": "stock.pop()",
}

CHANCE_SETUP = """
drawn = random.random
own_random = Random(3)
own_rng = np.random.default_rng(3)
tick = count(1)
ticks = [count(1)]
stock = list(range(100))
made_objects = []
FOLDER = tempfile.mkdtemp()

def shuffled(values):
    random.shuffle(values)
    return values

def fresh_object():
    made_objects.append(object())
    return made_objects[-1]

def growing_folder():
    open(os.path.join(FOLDER, str(len(os.listdir(FOLDER)))), 'w').close()
    return FOLDER

def thread_name():
    names = []
    thread = threading.Thread(target=lambda: names.append(threading.current_thread().name))
    thread.start()
    thread.join()
    return names[0]
"""

SEEDING = {"paddle.seed": "wb.seed({n})", "np.random.seed": "np.random.seed({n})", "random.seed": "random.seed({n})"}
