"""Messages and stubs of the protos, generated: for requests that the clients of `seqsvr` do not send.

>>> from seqsvr.v1 import sequence_pb2, sequence_pb2_grpc
>>> import grpc
>>> with grpc.insecure_channel("127.0.0.1:7100") as channel:  # doctest: +SKIP
...     stub = sequence_pb2_grpc.SequenceServiceStub(channel)
...     stub.Next(sequence_pb2.NextRequest(uid=42, count=1)).value

A request through a stub gets no retries, and any node forwards it to the owner.
"""
