"""Small random networks of matrix products and additions, as operator graphs."""

from __future__ import annotations

from random import Random

from cimplan.graph.operators import MatrixWork, Operator, OperatorGraph, Tensor


def product_network(seed: int) -> OperatorGraph:
    """Return a network in which every product has the same number of outputs, so that any two results may be added."""
    rng = Random(seed)
    width, vectors = rng.choice([8, 24, 60]), rng.choice([1, 4, 16])
    tensors = {"x": Tensor("x", "int8", (vectors, width))}
    operators = []
    values = ["x"]
    for index in range(rng.randint(1, 7)):
        name = f"t{index}"
        tensors[name] = Tensor(name, "int8", (vectors, width))
        source = rng.choice(values[-3:])
        if index and rng.random() < 0.25:
            operators.append(Operator(f"add{index}", "Add", "", (source, rng.choice(values)), (name,)))
        elif len(values) > 1 and vectors == width and rng.random() < 0.3:
            other = rng.choice(values)
            work = MatrixWork(width, width, vectors, stationary="activation")
            operators.append(Operator(f"dot{index}", "MatMul", "", (source, other), (name,), work, weight_input=other))
        else:
            weight = f"w{index}"
            tensors[weight] = Tensor(weight, "int8", (width, width), constant=True)
            work = MatrixWork(width, width, vectors)
            operators.append(Operator(f"mm{index}", "MatMul", "", (source, weight), (name,), work, weight_input=weight))
        values.append(name)
    if all(operator.work is None for operator in operators):
        return product_network(seed + 10**9)
    used = {name for operator in operators for name in operator.inputs}
    outputs = tuple(name for name in values[1:] if name not in used)
    return OperatorGraph(f"products {seed}", tuple(operators), tensors, ("x",), outputs)
