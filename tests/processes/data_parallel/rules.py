"""What `test_data_parallel.py` runs on two ranks: every function is a rule, what it returns is compared there."""

import json

import numpy as np

import workbench as wb
from workbench import distributed as dist
from workbench.parallel.data_parallel.exchange import GradientExchange
from workbench.parallel.data_parallel.fused import fused_allreduce_gradients

dist.init_parallel_env()
rank = dist.get_rank()
factor = [2.0, 4.0][rank]  # local gradients of `One` are 2 and 4, their mean is 3


class One(wb.nn.Layer):
    """A parameter times what comes in."""

    def __init__(self, name="p"):
        super().__init__()
        self.p = self.create_parameter([1], wb.ParamAttr(name=f"{name}{next_number()}" if name == "p" else name))
        self.p.name = name

    def forward(self, x):
        return self.p * x


def next_number(count=[0]):  # noqa: B006 (counts parameters)
    count[0] += 1
    return count[0]


class Three(wb.nn.Layer):
    """Parameters `names`; forward uses those it is told, the first of them last."""

    def __init__(self, names="abc"):
        super().__init__()
        self.all = {name: One(name) for name in names}
        for name, one in self.all.items():
            self.add_sublayer(name, one)

    def forward(self, used, x):
        return sum((self.all[name](x) for name in used), wb.zeros([1]))


def grads(model):
    return [None if p.grad is None else p.grad.tolist() for p in model.parameters()]


def synced(net, value=None):
    net(wb.to_tensor([factor if value is None else value])).sum().backward()


def kind_and_text(call):
    try:
        call()
    except Exception as error:
        return type(error).__name__, str(error)
    return None, ""


def d_2():
    wb.seed(rank)
    inner = wb.nn.Sequential(wb.nn.Linear(2, 2), wb.nn.BatchNorm1D(2))
    inner.register_buffer("count", wb.to_tensor([1.0, 1.0] if rank == 0 else [5.0, 5.0]))
    before = inner[0].weight.tolist()
    net = wb.DataParallel(inner)
    after = inner[0].weight.tolist()
    net(wb.to_tensor(np.random.RandomState(rank).rand(4, 2).astype(np.float32)))
    return {"before": before, "after": after, "buffer": inner.count.tolist(), "statistics": inner[1]._mean.tolist()}


def d_3():
    net = wb.DataParallel(One())
    synced(net)
    grad = net.parameters()[0].grad.tolist()
    net.clear_gradients()
    rows = wb.to_tensor([[1.0]] if rank == 0 else [[3.0], [4.0], [5.0]])
    net(rows).mean().backward()
    net.apply_collective_grads()
    return {
        "grad": grad,
        "uneven": net.parameters()[0].grad.tolist(),
        "scaled": net.scale_loss(wb.to_tensor(7.0)).item(),
    }


def d_4():
    net = wb.DataParallel(One())
    with net.no_sync():
        synced(net)
    synced(net)
    after_no_sync = net.parameters()[0].grad.item()
    net.parameters()[0].grad = None
    synced(net)
    once = net.parameters()[0].grad.item()
    synced(net)
    return {"after_no_sync": after_no_sync, "once": once, "twice": net.parameters()[0].grad.item()}


def d_5():
    net = wb.DataParallel(One())
    p, x = net.parameters()[0], wb.to_tensor([factor])
    told = {}
    with net.no_sync():
        inside = net(x)
    inside.backward()
    told["forward_inside"], p.grad = p.grad.item(), None
    outside = net(x)
    with net.no_sync():
        outside.backward()
    told["backward_inside"], p.grad = p.grad.item(), None
    try:
        with net.no_sync():
            raise KeyError
    except KeyError:
        pass
    y = net(x)
    y.backward(retain_graph=True)
    told["after_an_error"] = p.grad.item()
    y.backward()
    told["second_backward"] = p.grad.item()
    p.grad = None
    with wb.no_grad():
        net(x)
    net._layers(x).backward()
    told["after_no_grad"] = p.grad.item()
    return told


def d_6():
    def buckets(**sizes):
        model = wb.nn.Sequential(*[One(f"p{i}") for i in range(4)])
        return wb.DataParallel(model, **sizes)._exchange.buckets

    return {"single": buckets(comm_buffer_size=0, last_comm_buffer_size=0), "one": buckets()}


def d_7():
    model = Three(["first", "middle", "last"])
    net = wb.DataParallel(model, comm_buffer_size=0, last_comm_buffer_size=0)
    before = net._exchange.buckets
    gradients = []
    for _ in range(2):
        net(["middle", "last", "first"], wb.to_tensor([factor])).backward()
        gradients.append(grads(net))
        net.clear_gradients()
    return {"before": before, "after": net._exchange.buckets, "same": gradients[0] == gradients[1] == [[3.0]] * 3}


def d_8():
    events = []

    class Watched(GradientExchange):
        def _start(self, place):
            events.append(f"bucket {place}")
            super()._start(place)

        def take(self, leaf, total):
            events.append(f"gradient of {leaf.name}")
            super().take(leaf, total)

    model = Three(["first", "middle", "last"])
    net = wb.DataParallel(model, comm_buffer_size=0, last_comm_buffer_size=0)
    net._exchange.__class__ = Watched
    net(["first", "middle", "last"], wb.to_tensor([factor])).backward()
    return {"events": events}


def d_9():
    told = {}
    net = wb.DataParallel(Three("abc"), find_unused_parameters=True)
    a, b, c = net.parameters()
    x = wb.to_tensor([factor])
    net("ab" if rank == 0 else "b", x).backward()
    told["unused_everywhere"], told["used_on_one"] = None if c.grad is None else "a gradient", a.grad.tolist()
    net.clear_gradients()
    a.grad = None if rank == 0 else wb.to_tensor([6.0])
    net("ab" if rank == 0 else "b", wb.to_tensor([8.0])).backward()
    told["used_here_and_added_up_there"] = a.grad.tolist()
    for p in (a, b, c):
        p.grad = None

    usual = wb.DataParallel(Three("abc"))
    for _ in range(2):
        usual.clear_gradients()
        for p in usual.parameters():
            p.grad = None
        usual("ac", x).backward()
    told["same_as_before"] = grads(usual)
    for p in usual.parameters():
        p.grad = None
    told["kind"], told["changed"] = kind_and_text(lambda: usual("ac" if rank else "abc", x).backward())
    usual("ac", x).backward()
    told["goes_on"] = usual.parameters()[0].grad.tolist()
    return told


def d_10():
    inner = wb.nn.Sequential(wb.nn.Linear(2, 2), wb.nn.BatchNorm1D(2))
    net = wb.DataParallel(inner)
    names = [name for name, _ in net.named_parameters()]
    state = net.state_dict()
    net.set_dict({**state, "0.bias": wb.to_tensor([0.5, 0.25])})
    return {"state": list(state), "named": names, "full_name": net.full_name(), "loaded": inner[0].bias.tolist()}


def d_11():
    model = wb.nn.Sequential(One(), One("frozen"))
    model[1].p.stop_gradient = True
    net = wb.DataParallel(model)
    with net.no_sync():
        synced(net, factor / model[1].p.item())
    told = {}
    unused = One("unused").p
    fused_allreduce_gradients([unused, *net.parameters()], None)
    told["unused"] = unused.grad
    told["mean"] = round(model[0].p.grad.item(), 5)
    fused_allreduce_gradients(list(net.parameters()), None)
    told["again"], told["frozen"] = round(model[0].p.grad.item(), 5), model[1].p.grad
    table = wb.nn.Embedding(3, 2, sparse=True)
    table(wb.to_tensor([1])).sum().backward()
    _, text = kind_and_text(lambda: fused_allreduce_gradients(table.parameters(), None))
    told["sparse"] = "dense gradients" if "dense gradients" in text else text
    return told


def d_13():
    net = wb.DataParallel(One())
    synced(net)
    kept = net.parameters()[0].grad.tolist()
    again = (lambda: synced(net)) if rank == 0 else dist.barrier
    _, error = kind_and_text(again)
    same = net.parameters()[0].grad.tolist()
    dist.get_group().process_group.reset()
    return {"error": error, "kept": same if same == kept else "changed"}


class Looked(wb.nn.Layer):
    """Two tables, of which each rank reads its own."""

    def __init__(self, tables):
        super().__init__()
        self.tables = tables

    def forward(self, number):
        return self.tables[number](wb.to_tensor([1]))


def sparse():
    table = wb.nn.Embedding(5, 2, sparse=True)
    net = wb.DataParallel(table)
    net(wb.to_tensor([[1, 1, 2], [2, 4]][rank])).sum().backward()
    grad = table.weight.grad
    told = {"is_sparse": grad.is_sparse(), "grad": grad.numpy().tolist()}
    both = wb.nn.LayerList([wb.nn.Embedding(5, 2, sparse=True), wb.nn.Embedding(3, 2, sparse=True)])
    some = wb.DataParallel(Looked(both), find_unused_parameters=True)
    some(rank).sum().backward()
    told["looked_up_on_one"] = [layer.weight.grad.numpy().tolist() for layer in both]
    return told


def trained():
    def model():
        wb.seed(7)
        return wb.nn.Sequential(wb.nn.Linear(6, 8), wb.nn.Tanh(), wb.nn.Linear(8, 1))

    random = np.random.RandomState(3)
    batches = [(random.rand(8, 6).astype(np.float32), random.rand(8, 1).astype(np.float32)) for _ in range(6)]
    weights = []
    for net, part in ((wb.DataParallel(model()), slice(4 * rank, 4 * rank + 4)), (model(), slice(None))):
        optimizer = wb.optimizer.Adam(0.01, parameters=net.parameters())
        for x, y in batches:
            wb.nn.functional.mse_loss(net(wb.to_tensor(x[part])), wb.to_tensor(y[part])).backward()
            optimizer.step()
            optimizer.clear_grad()
        weights.append([value for p in net.parameters() for value in p.numpy().reshape(-1).tolist()])
    return {"weights": weights[0], "alone": weights[1]}


def sync_batch_norm():
    random = np.random.RandomState(5)
    batch = random.rand(7, 3, 2).astype(np.float32) * [[[1.0], [5.0], [0.1]]]
    share = batch[:3] if rank == 0 else batch[3:]
    weights = random.rand(*batch.shape).astype(np.float32)
    own = weights[:3] if rank == 0 else weights[3:]
    results = []
    for layer, x, w in ((wb.nn.SyncBatchNorm(3), share, own), (wb.nn.BatchNorm1D(3), batch, weights)):
        x, w = wb.to_tensor(x.astype(np.float32), stop_gradient=False), wb.to_tensor(w)
        y = layer(x)
        (y * w).sum().backward()
        slopes = [layer.weight.grad, layer.bias.grad]
        if layer.full_name().startswith("sync"):
            for slope in slopes:
                dist.all_reduce(slope)
        y, dx = (
            value if len(value) < 7 else value[:3] if rank == 0 else value[3:] for value in (y.numpy(), x.grad.numpy())
        )
        rest = [layer._mean, layer._variance, *slopes]
        layer.eval()
        results.append(
            [v.reshape(-1).tolist() for v in (y, dx, *(r.numpy() for r in rest), layer(wb.ones([1, 3, 1])).numpy())]
        )
    return {"over_processes": results[0], "alone": results[1]}


def differ():
    return kind_and_text(lambda: wb.DataParallel(wb.nn.Linear(2, 3 + rank)))[1]


def failure():
    class Fails(wb.autograd.PyLayer):
        @staticmethod
        def forward(ctx, x):
            return x * 1.0

        @staticmethod
        def backward(ctx, g):
            if rank == 1 and fails:
                raise ValueError("no gradient today")
            return g

    fails = True
    model = wb.nn.Sequential(One("first"), One("second"))
    for one in model:
        one.p.set_value(np.ones(1, np.float32))

    class Inner(wb.nn.Layer):
        def __init__(self):
            super().__init__()
            self.first, self.second = model[0], model[1]

        def forward(self, x):
            return self.second(Fails.apply(self.first(x)))

    net = wb.DataParallel(Inner(), comm_buffer_size=0, last_comm_buffer_size=0)
    kind, error = kind_and_text(lambda: synced(net))
    kept, fails = model[1].p.grad, False
    synced(net)
    return {"kind": kind, "error": error, "kept": kept, "next": model[0].p.grad.tolist()}


RULES = [
    d_2,
    d_3,
    d_4,
    d_5,
    d_6,
    d_7,
    d_8,
    d_9,
    d_10,
    d_11,
    d_13,
    sparse,
    trained,
    sync_batch_norm,
    differ,
    failure,
]
print(json.dumps({rule.__name__: rule() for rule in RULES}))
