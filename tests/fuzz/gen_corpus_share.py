#!/usr/bin/env python3
"""Writes the valid and the damaged conversations of corpus_share/, the inputs of fuzz_share.

    gen_corpus_share.py [FOLDER]      FOLDER is corpus_share beside this file

fuzz_share.c describes the format of an input, src/share/wire.h that of the messages. Run it after a
change of either. It writes over files of the same names and leaves all others as they are.
"""

import os
import struct
import sys

UNIT = 2 << 20
BYTES_MOST = 1 << 45
CHUNK_MOST = 131072
UUID = b"acre-soft" + bytes(7)
FETCH, OWNER_MEM, REFETCH, OWNER_VEC, IMPORT = range(5)  # enum fuzz_side
CLOSED = 5  # added to a side: the connection is closed after the last message
SMALL, OTHER, LARGE, PEER, LOOSE, MEMFD, NULL, EMPTY = range(8)  # enum fuzz_descriptor
PEER_STATUS, MEMORY_STATUS = -28, -12  # ACRE_E_PEER, ACRE_E_DEVICE_MEMORY
REQUEST, VIEW, MORE, CHUNKS, REFUSED = range(1, 6)  # enum acre__wire_type


def message(kind, count=0, body=b"", fds=0, magic=b"ACRE", version=1, declared=None):
    """A record of an input; `declared` replaces the right number of bytes in the head."""
    size = 16 + len(body)
    head = magic + struct.pack("=HHII", version, kind, size if declared is None else declared, count)
    return struct.pack("<HB", size, fds) + head + body


def request(ids=(), total=None, first=0):
    total = len(ids) if total is None else total
    return message(REQUEST, len(ids), struct.pack(f"=II{len(ids)}Q", total, first, *ids))


def view(chunks, keep=0, mapped=None, reserved=8 * UNIT, used=5, flags=0, uuid=UUID, element=1):
    mapped = chunks * UNIT if mapped is None else mapped
    body = struct.pack("=4Q4I", element, used if mapped else 0, mapped, reserved, chunks, keep, flags, 0)
    return message(VIEW, 0, body + uuid)


def chunks(ids, first=0, sizes=None, fds=None):
    """The id of a chunk selects its descriptor."""
    sizes = sizes or [2 * UNIT if i % 8 == LARGE else UNIT for i in ids]
    body = struct.pack("=II", first, 0)
    body += b"".join(struct.pack("=QQ", *chunk) for chunk in zip(ids, sizes))
    return message(CHUNKS, len(ids), body, len(ids) if fds is None else fds)


def with_fds(record, fds):
    return record[:2] + bytes([fds]) + record[3:]


def refused(status, text=b"no", end=b"\0"):
    return message(REFUSED, 0, struct.pack("=iI", status, 0) + (text + end).ljust(160, end or b"x"))


def inputs():
    more = message(MORE)
    two = view(2) + chunks([SMALL, OTHER])
    ids = list(range(2, 68))  # of the vec's chunks

    # An importer that has no chunks, and what an owner may answer.
    yield "fetch_nothing_said", FETCH, b""
    yield "fetch_empty_share", FETCH, view(0)
    yield "fetch_two_chunks", FETCH, two
    yield "fetch_one_by_one", FETCH, view(3) + b"".join(chunks([8 * i], i) for i in range(3))
    yield "fetch_large_and_peer", FETCH, view(3, mapped=4 * UNIT) + chunks([LARGE, PEER]) + chunks([0], 2)
    yield "fetch_read_only", FETCH, view(1, flags=1) + chunks([PEER])
    yield "fetch_all_descriptors", FETCH, view(253, reserved=512 * UNIT) + chunks([0] * 253)
    yield "fetch_refused", FETCH, refused(PEER_STATUS, b"go\naway\x1b[2J")
    yield "fetch_refused_late", FETCH, view(1) + refused(MEMORY_STATUS)
    yield "fetch_refused_ok", FETCH, refused(0)
    yield "fetch_refused_no_end", FETCH, refused(PEER_STATUS, b"x" * 160, b"")
    yield "fetch_bad_magic", FETCH, message(VIEW, 0, bytes(64), magic=b"ACRF")
    yield "fetch_bad_version", FETCH, message(VIEW, 0, bytes(64), version=2)
    yield "fetch_bad_length", FETCH, message(VIEW, 0, bytes(64), declared=16)
    yield "fetch_bad_type", FETCH, message(9)
    yield "fetch_bad_uuid", FETCH, view(1, uuid=bytes(16))
    yield "fetch_bad_keep", FETCH, view(1, keep=1)
    yield "fetch_bad_sizes", FETCH, view(1, mapped=UNIT + 4096)
    yield "fetch_too_many_chunks", FETCH, view(CHUNK_MOST + 1, mapped=BYTES_MOST, reserved=BYTES_MOST)
    yield "fetch_most_chunks", FETCH, view(CHUNK_MOST, reserved=BYTES_MOST) + chunks([0])
    yield "fetch_too_many_bytes", FETCH, view(1, mapped=BYTES_MOST + UNIT, reserved=BYTES_MOST + UNIT)
    yield "fetch_not_chunks", FETCH, view(2) + chunks([SMALL, NULL])
    yield "fetch_memfd", FETCH, view(1) + chunks([MEMFD])
    yield "fetch_no_seals", FETCH, view(1) + chunks([LOOSE])
    yield "fetch_no_bytes", FETCH, view(1) + chunks([EMPTY])
    yield "fetch_few_descriptors", FETCH, view(2) + chunks([SMALL, OTHER], fds=1)
    yield "fetch_view_with_descriptor", FETCH, with_fds(view(1), 1)
    yield "fetch_gap", FETCH, view(2) + chunks([SMALL], 1)
    yield "fetch_chunks_first", FETCH, chunks([SMALL, NULL])
    yield "fetch_bytes_missing", FETCH, view(2, mapped=3 * UNIT) + chunks([SMALL, OTHER])
    yield "fetch_chunks_missing", FETCH, view(3, mapped=4 * UNIT) + chunks([LARGE, LARGE])
    yield "fetch_chunk_too_many", FETCH, view(1, mapped=2 * UNIT) + chunks([SMALL, OTHER])
    yield "fetch_chunk_too_large", FETCH, view(2) + chunks([0, 8], sizes=[UNIT, BYTES_MOST])
    yield "fetch_more_than_a_message", FETCH, with_fds(message(VIEW, 0, bytes(9000)), 3)

    yield "fetch_closed", FETCH + CLOSED, b""
    yield "fetch_closed_two_chunks", FETCH + CLOSED, two
    yield "fetch_closed_refused", FETCH + CLOSED, refused(PEER_STATUS)
    yield "fetch_closed_bad_magic", FETCH + CLOSED, message(MORE, magic=b"ACRF")

    # An importer that has three chunks.
    yield "refetch_same", REFETCH, view(3, keep=3)
    yield "refetch_one_more", REFETCH, view(4, keep=3) + chunks([OTHER], 3)
    yield "refetch_other_end", REFETCH, view(3, keep=1) + chunks([SMALL, OTHER], 1)
    yield "refetch_shrunk", REFETCH, view(2, keep=2)
    yield "refetch_keep_too_many", REFETCH, view(5, keep=4) + chunks([OTHER], 4)
    yield "refetch_keep_too_small", REFETCH, view(3, keep=3, mapped=2 * UNIT)
    yield "refetch_nothing_new", REFETCH, view(3, keep=3, mapped=4 * UNIT)

    # A whole import, with refreshes.
    yield "import_and_refresh", IMPORT, two + view(2, keep=2)
    yield "import_grows", IMPORT, two + view(3, keep=2) + chunks([PEER], 2)
    yield "import_moves", IMPORT, view(1, reserved=UNIT) + chunks([0]) + view(2, keep=1) + chunks([1], 1)
    yield "import_shrinks", IMPORT, two + view(1, keep=1) + view(0)
    yield "import_end_replaced", IMPORT, two + view(2, keep=1) + chunks([LARGE - 2], 1)
    yield "import_all_replaced", IMPORT, two + view(1, mapped=2 * UNIT) + chunks([LARGE])
    yield "import_wrong_size", IMPORT, view(1, mapped=2 * UNIT) + chunks([SMALL], sizes=[2 * UNIT])
    yield "import_wrong_size_later", IMPORT, two + view(2, keep=1, mapped=3 * UNIT) + chunks(
        [PEER], 1, sizes=[2 * UNIT])
    yield "import_refused_later", IMPORT, two + refused(MEMORY_STATUS, b"out of memory")
    yield "import_most_addresses", IMPORT, view(1, reserved=BYTES_MOST) + chunks([0])
    yield "import_empty", IMPORT, view(0, reserved=0) + view(1) + chunks([0])
    yield "import_read_only", IMPORT, view(1, flags=1) + chunks([0])
    yield "import_closed", IMPORT + CLOSED, two + view(2, keep=2)
    yield "import_closed_refused", IMPORT + CLOSED, refused(PEER_STATUS)

    # An owner, and what an importer may send.
    yield "owner_request", OWNER_MEM, request() + more
    yield "owner_request_has_all", OWNER_MEM, request([1])
    yield "owner_request_again", OWNER_MEM, request() + request([7]) + more
    yield "owner_nothing_said", OWNER_MEM, b""
    yield "owner_more_first", OWNER_MEM, more
    yield "owner_more_twice", OWNER_MEM, request() + more + more
    yield "owner_wrong_type", OWNER_MEM, view(1)
    yield "owner_chunks", OWNER_MEM, chunks([SMALL, NULL])
    yield "owner_request_with_descriptors", OWNER_MEM, with_fds(request(), 5)
    yield "owner_too_many_ids", OWNER_MEM, request([1], CHUNK_MOST + 1)
    yield "owner_none_of_ids", OWNER_MEM, request([], 5)
    yield "owner_long_count", OWNER_MEM, message(REQUEST, 1001, bytes(8 + 8008))
    yield "owner_unfinished", OWNER_MEM, request() + more + request([1, 2], CHUNK_MOST)
    yield "owner_closed", OWNER_MEM + CLOSED, request() + more
    yield "owner_closed_with_descriptors", OWNER_MEM + CLOSED, chunks([SMALL] * 50) + chunks([PEER] * 50)
    yield "owner_vec_closed", OWNER_VEC + CLOSED, request() + more + request(ids[:3], 9)
    yield "owner_vec_request", OWNER_VEC, request() + more + more
    yield "owner_vec_parts", OWNER_VEC, request(ids[:3], 6) + request(ids[3:6], 6, 3) + more
    yield "owner_vec_has_all", OWNER_VEC, request(ids) + request(ids[:40]) + more
    yield "owner_vec_large_part", OWNER_VEC, request(ids + [9] * 934, 1100) + request([9] * 100, 1100, 1000) + more
    yield "owner_vec_part_missing", OWNER_VEC, request(ids[:3], 9) + request(ids[6:9], 9, 6)
    yield "owner_vec_part_twice", OWNER_VEC, request(ids[:6], 9) + request(ids[1:9], 9, 1)
    yield "owner_vec_part_of_another", OWNER_VEC, request(ids[:3], 9) + request(ids[3:6], 8, 3)
    yield "owner_vec_more_in_request", OWNER_VEC, request() + request(ids[:3], 9) + more
    yield "owner_vec_request_in_answer", OWNER_VEC, request() + more + request(ids[:64]) + more + more


def main():
    beside = os.path.join(os.path.dirname(os.path.abspath(__file__)), "corpus_share")
    folder = sys.argv[1] if len(sys.argv) > 1 else beside
    os.makedirs(folder, exist_ok=True)
    for name, side, records in inputs():
        with open(os.path.join(folder, name), "wb") as file:
            file.write(bytes([side]) + records)


if __name__ == "__main__":
    main()
