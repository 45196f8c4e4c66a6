"""ONNX reading, shapes, quantisation, the operator graph, and the lowering of operators to matrix work."""
