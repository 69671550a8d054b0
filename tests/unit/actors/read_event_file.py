"""Reads a TensorBoard event file and prints its events as JSON: TFRecord framing, CRC-32C bit by bit, protobuf wire format by hand.

Exits with 1 and says where the file is broken."""
import json
import math
import struct
import sys


def broken(why):
    print("broken:", why)
    sys.exit(1)


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def records(data):
    at = 0
    while at < len(data):
        length, length_crc = struct.unpack_from("<QI", data, at)
        if masked(data[at:at + 8]) != length_crc:
            broken(f"length at byte {at}")
        event = data[at + 12:at + 12 + length]
        (event_crc,) = struct.unpack_from("<I", data, at + 12 + length)
        if masked(event) != event_crc:
            broken(f"event at byte {at}")
        yield event
        at += 16 + length


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            return value, at


def fields(data):
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        number, kind = key >> 3, key & 7
        if kind == 0:
            value, at = varint(data, at)
        elif kind == 1:
            (value,) = struct.unpack_from("<d", data, at)
            at += 8
        elif kind == 5:
            (value,) = struct.unpack_from("<f", data, at)
            at += 4
        elif kind == 2:
            length, at = varint(data, at)
            value = data[at:at + length]
            at += length
        else:
            broken(f"wire type {kind}")
        yield number, value


def event(data):
    told = {}
    for number, value in fields(data):
        if number == 1:
            told["wall_time"] = value
        elif number == 2:
            told["step"] = value
        elif number == 3:
            told["file_version"] = value.decode()
        elif number == 5:
            told["scalars"] = {}
            for _, one in fields(value):
                parts = dict(fields(one))
                told["scalars"][parts[1].decode()] = "nan" if math.isnan(parts[2]) else parts[2]
        elif number == 7:
            told["session_status"] = dict(fields(value))[1]
    return told


print(json.dumps([event(data) for data in records(open(sys.argv[1], "rb").read())]))
