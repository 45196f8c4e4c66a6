"""Values of a network's tensors while a program runs: matrix products come from the arrays, all else from the host."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from cimplan.errors import InputError, NoAnswerError

Values = np.ndarray[Any, Any]


class NetworkValues:
    """Tensors of one inference, computed when they are asked for.

    Parameters
    ----------
    model : onnx.ModelProto
        The network, with its weights.
    inputs : mapping of str to array
        Values of its inputs.
    products : collection of str
        Tensors that only the arrays may make.
    """

    def __init__(self, model: onnx.ModelProto, inputs: Mapping[str, Values], products: frozenset[str]) -> None:
        self._model = model
        self._products = products
        self._makers: dict[str, onnx.NodeProto] = {
            name: node for node in model.graph.node for name in node.output if name
        }
        self._constants = {tensor.name: tensor for tensor in model.graph.initializer}
        self._values: dict[str, Values] = dict(inputs)

    def node_of(self, tensor: str) -> onnx.NodeProto:
        """Return the node that makes a tensor."""
        return self._makers[tensor]

    def put(self, tensor: str, value: Values) -> None:
        """Take over a product from the arrays."""
        self._values[tensor] = value

    def get(self, tensor: str) -> Values:
        """Return a tensor, computing what it needs on the host.

        Raises
        ------
        NoAnswerError
            If a product it needs has not been finished by the arrays.
        InputError
            If the host cannot compute a node.
        """
        waiting = [tensor]
        while waiting:
            name = waiting[-1]
            if name in self._values:
                waiting.pop()
            elif name in self._constants:
                self._values[name] = numpy_helper.to_array(self._constants[name])
            elif name in self._products:
                raise NoAnswerError(f"the program uses {name!r} before the arrays have finished it")
            elif name not in self._makers:
                raise InputError(f"tensor {name!r} has no value", why="it is neither an input nor made by a node")
            else:
                node = self._makers[name]
                missing = [source for source in node.input if source and source not in self._values]
                if missing:
                    waiting.extend(missing)
                else:
                    self._compute(node)
        return self._values[tensor]

    def _compute(self, node: onnx.NodeProto) -> None:
        """Run one node in ONNX Runtime."""
        import onnxruntime as ort
        from onnxruntime.capi import onnxruntime_pybind11_state as state

        sources = [name for name in dict.fromkeys(node.input) if name]
        graph = helper.make_graph(
            [node],
            "node",
            [
                helper.make_tensor_value_info(
                    name, helper.np_dtype_to_tensor_dtype(self._values[name].dtype), self._values[name].shape
                )
                for name in sources
            ],
            [onnx.ValueInfoProto(name=name) for name in node.output if name],
        )
        model = helper.make_model(graph, opset_imports=self._model.opset_import)
        model.ir_version = self._model.ir_version
        options = ort.SessionOptions()
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.intra_op_num_threads = 1
        options.log_severity_level = 4
        try:
            session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
            results = session.run(None, {name: self._values[name] for name in sources})
        except (state.Fail, state.InvalidArgument, state.InvalidGraph, state.NotImplemented, RuntimeError) as error:
            raise InputError(
                f"the host cannot compute {node.op_type}", where=node.name or node.output[0], why=str(error)
            ) from error
        self._values.update(zip((name for name in node.output if name), results, strict=True))
