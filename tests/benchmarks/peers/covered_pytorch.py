"""The programs of `workbench bench --coverage` in PyTorch, with as many threads as processors.

They run eagerly; with the option `compiled`, `torch.compile` makes the loss and its gradients one, and the optimizer is
the library's fused one in both.
"""

import os

import torch
from covered import main
from in_pytorch import attention, convolutional, dense, recurrent
from in_pytorch.layers import Given

PROGRAMS = {**attention.PROGRAMS, **convolutional.PROGRAMS, **dense.PROGRAMS, **recurrent.PROGRAMS}


def stepping(given, name, compiled):
    """A function of a batch that makes a step, and what is trained."""
    if name == "gan":
        return dense.adversarial(given, compiled)
    program = PROGRAMS[name](given)
    loss_of, update = compiled(program.loss), program.update

    def step(*feed):
        update.zero_grad()
        loss = loss_of(*feed)
        loss.backward()
        update.step()
        return loss.item()

    return step, [parameter for parameter in program.loss.parameters() if parameter.requires_grad]


def training(name, start, options):
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    torch.manual_seed(7)
    compiled = torch.compile if "compiled" in options else lambda function: function
    step, trained = stepping(Given(start.values, start.drawn), name, compiled)

    def fed():
        return step(*(torch.from_numpy(array) for array in start.feed))

    return fed, sum(parameter.numel() for parameter in trained)


if __name__ == "__main__":
    main(training, torch.__version__)
