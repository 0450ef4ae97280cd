"""The workloads in Paddle 1.8's ParallelExecutor, on as many CPU devices as CPU_NUM says (Python 3.7)."""

import paddle
import paddle.fluid as fluid
from measure import WIDTHS, batch, main, weights
from paddle.fluid import layers, optimizer


def perceptron(x, widths):
    for width in widths[1:-1]:
        x = layers.fc(x, width, act="relu")
    return layers.fc(x, widths[-1])


def lenet(x):
    for count, padding in ((6, 2), (16, 0)):
        x = layers.pool2d(layers.conv2d(x, count, 5, padding=padding, act="relu"), 2, "max", 2)
    return perceptron(x, WIDTHS["lenet"])


def token_fc(x, width, act=None):
    return layers.fc(x, width, num_flatten_dims=2, act=act)


def attention(x):
    def heads():
        return layers.transpose(layers.reshape(token_fc(x, 128), [0, 64, 4, 32]), [0, 2, 1, 3])

    query, key, value = heads(), heads(), heads()
    weights = layers.softmax(layers.matmul(query, key, transpose_y=True, alpha=32**-0.5))
    attended = layers.transpose(layers.matmul(weights, value), [0, 2, 1, 3])
    return token_fc(layers.reshape(attended, [0, 64, 128]), 128)


def encoder(x):
    for _ in range(2):
        x = layers.layer_norm(layers.elementwise_add(x, attention(x)), begin_norm_axis=2)
        hidden = token_fc(token_fc(x, 512, "gelu"), 128)
        x = layers.layer_norm(layers.elementwise_add(x, hidden), begin_norm_axis=2)
    return layers.fc(layers.reduce_mean(x, dim=1), 10)


def network(name, x):
    if name == "lenet":
        return lenet(x)
    return encoder(x) if name == "encoder" else perceptron(x, WIDTHS[name])


def update(name):
    if name in ("mlp", "encoder"):
        return optimizer.Adam(1e-3)
    return optimizer.Momentum(0.01, 0.9) if name == "lenet" else optimizer.SGD(0.01)


def training(name, devices):
    assert len(fluid.cpu_places()) == devices
    images, classes = batch(name)
    x = fluid.data("x", [None, *images.shape[1:]], "float32")
    y = fluid.data("y", [None, 1], "int64")
    loss = layers.mean(layers.softmax_with_cross_entropy(network(name, x), y))
    update(name).minimize(loss)
    place = fluid.CPUPlace()
    fluid.Executor(place).run(fluid.default_startup_program())
    matrices = (p for p in fluid.default_main_program().all_parameters() if len(p.shape) > 1)
    for parameter, value in zip(matrices, weights(name)):
        fluid.global_scope().find_var(parameter.name).get_tensor().set(value, place)
    executor = fluid.ParallelExecutor(use_cuda=False, loss_name=loss.name)
    return lambda: executor.run([loss.name], feed={"x": images, "y": classes})[0]


if __name__ == "__main__":
    main(training, paddle.__version__)
