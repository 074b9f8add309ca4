import json
import os
import socket
import struct

# The channel to the parent. Child processes must not inherit it.
channel = socket.socket(fileno=int(os.environ["WARPSMITH_CHANNEL"]))
channel.set_inheritable(False)


def read(count):
    data = bytearray(count)
    view = memoryview(data)
    while view:
        got = channel.recv_into(view)
        if not got:
            # The parent is gone. This may be a thread beside one that works, so the whole process ends.
            os._exit(0)
        view = view[got:]
    return data


def receive():
    """A message: a JSON value and a list of binary attachments."""
    length, attachments = struct.unpack("<II", read(8))
    lengths = struct.unpack(f"<{attachments}Q", read(8 * attachments))
    message = json.loads(read(length))
    return message, [read(each) for each in lengths]


def send(message, attachments=()):
    text = json.dumps(message).encode()
    channel.sendall(struct.pack("<II", len(text), len(attachments)))
    channel.sendall(struct.pack(f"<{len(attachments)}Q", *map(len, attachments)) + text)
    for attachment in attachments:
        channel.sendall(attachment)
