"""A link with a delay: frames between two interfaces of one namespace, forwarded by this process.

Arguments: the interface of the host, the interface towards the others, milliseconds, and addresses of the hosts that are
far away. Frames of the host to those leave late, in order; all other frames leave at once. Each end delays what it
sends, so a round trip takes twice the time. It prints "ready" once, and runs until it is killed.

The kernel's own netem is not in every kernel; raw sockets are. Frames keep their offload header, so that checksums and
segments that the kernel has not computed yet pass as they are.
"""

import collections
import select
import socket
import sys
import time

SOL_PACKET, PACKET_VNET_HDR = 263, 15
ETH_P_ALL = 3
# An offload header of 10 bytes precedes the Ethernet frame.
ETHERTYPE, IPV4 = slice(22, 24), b"\x08\x00"
IPV4_DESTINATION = slice(40, 44)


def interface(name):
    raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    raw.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
    raw.bind((name, 0))
    raw.setblocking(False)
    return raw


def frames(raw):
    """Frames that arrived; not those that this process sent."""
    while True:
        try:
            frame, (_, _, kind, _, _) = raw.recvfrom(70_000)
        except OSError:
            # Nothing more is there, or the cable was pulled.
            return
        if kind != socket.PACKET_OUTGOING:
            yield frame


def send(raw, frame):
    try:
        raw.send(frame)
    except OSError:
        # A full queue, or a cable that was pulled: the frame is lost, as on any link.
        pass


def main():
    host, others = interface(sys.argv[1]), interface(sys.argv[2])
    delay = float(sys.argv[3]) / 1000
    far = {socket.inet_aton(address) for address in sys.argv[4:]}
    late = collections.deque()
    print("ready", flush=True)
    while True:
        wait = max(0.0, late[0][0] - time.monotonic()) if late else None
        select.select([host, others], [], [], wait)
        for frame in frames(others):
            send(host, frame)
        for frame in frames(host):
            if frame[ETHERTYPE] == IPV4 and frame[IPV4_DESTINATION] in far:
                late.append((time.monotonic() + delay, frame))
            else:
                send(others, frame)
        while late and late[0][0] <= time.monotonic():
            send(others, late.popleft()[1])


main()
