#!/usr/bin/env python3
"""Writes the stored inputs of fuzz_pickle to corpus_pickle, and those of fuzz_events that are snapshots.

good_* are read, bad_* are refused. Python's pickle writes the good ones, as torch.cuda.memory does; the
others are opcodes by hand, which Python must not load: some would run a program.
"""

import gzip
import os
import pickle
import struct

HERE = os.path.dirname(os.path.abspath(__file__))
HEAD = b"\x80\x04"


def frame(name, filename, line):
    return {"name": name, "filename": filename, "line": line}


def entry(action, addr, size, time_us, frames, **more):
    return {"action": action, "addr": addr, "size": size, "stream": 0, "time_us": time_us,
            "compile_context": "N/A", "user_metadata": "", "frames": frames, **more}


def snapshot():
    """A snapshot with every kind of entry, blocks from before, and two devices."""
    main = [frame("forward", "model.py", 54), frame("<module>", "C:\\run.py", 65)]
    odd = [frame("</script><b>\x1b[31m\u202e\"';", "a;b\n", 1), frame("x" * 300, "", 0)]
    base = 0x7F0000000000
    oom = entry("oom", 0, 1 << 34, 1007, main)
    oom["device_free"] = oom.pop("addr")
    trace = [
        entry("segment_alloc", base, 2 << 20, 1000, main),
        entry("alloc", base, 512, 1001, main),
        entry("alloc", base + 1024, 1000, 1002, odd, user_metadata="weights"),
        entry("free_requested", base, 512, 1003, main),
        entry("free_completed", base, 512, 1004, main),
        entry("free_completed", base + (8 << 20), 4096, 1005, main),
        entry("segment_map", base + (32 << 20), 2 << 20, 1006, []),
        oom,
        entry("user_defined", 0, 0, 1008, [], user_metadata="step 2"),
        entry("snapshot", 0, 0, 1009, []),
        entry("segment_unmap", base + (32 << 20), 2 << 20, 1010, []),
        entry("segment_free", base + (16 << 20), 2 << 20, 1011, []),
    ]
    other = [entry("alloc", base + (64 << 20), 256, 1002, main), entry("free", base + (64 << 20), 256, 1003, [])]
    blocks = [
        {"address": base, "size": 1024, "requested_size": 512, "state": "inactive", "frames": []},
        {"address": base + 1024, "size": 1024, "requested_size": 1000, "state": "active_allocated", "frames": odd},
        {"address": base + 2048, "size": (2 << 20) - 2048, "requested_size": 0, "state": "inactive", "frames": []},
    ]
    before = [
        {"address": base + (8 << 20), "size": 4096, "requested_size": 4096, "state": "inactive", "frames": []},
        {"address": base + (8 << 20) + 4096, "size": (2 << 20) - 4096, "requested_size": 2000000,
         "state": "active_allocated", "frames": main},
    ]

    def segment(address, blocks):
        return {"device": 0, "address": address, "total_size": 2 << 20, "allocated_size": 0, "active_size": 0,
                "requested_size": 0, "stream": 0, "segment_type": "large", "segment_pool_id": (0, 0),
                "is_expandable": False, "frames": [], "blocks": blocks}

    return {"segments": [segment(base, blocks), segment(base + (8 << 20), before)],
            "device_traces": [trace, other],
            "allocator_settings": {"garbage_collection_threshold": 0.5, "max_split_size": -1,
                                   "expandable_segments": True, "number": 1 << 62, "larger": 1 << 64},
            "external_annotations": []}


def texts(*words):
    return b"".join(b"\x8c" + bytes([len(word)]) + word for word in words)


def main():
    good = snapshot()
    empty = {"segments": [], "device_traces": []}
    plain = pickle.dumps(good, protocol=4)
    shape = b"}(" + texts(b"segments") + b"%s" + texts(b"device_traces") + b"%su."
    files = {
        "good_snapshot": plain,
        "good_protocol5": pickle.dumps(good, protocol=5),
        "good_empty": pickle.dumps(empty, protocol=4),
        "good_tail": pickle.dumps(empty, protocol=4) + b"\0\0",
        "good_number": HEAD + b"K\x01.",
        # A list that contains itself, and traces that are shared many times.
        "good_cycle": HEAD + shape % (b"]\x94h\x00a", b"]\x94(h\x00h\x01e"),
        "good_shared": HEAD + shape % (b"]", b"](]\x94(" + b"}" * 50 + b"e" + b"h\x00" * 200 + b"e"),
        "bad_cut": plain[: len(plain) // 2],
        "bad_global": HEAD + b"cos\nsystem\n(S'true'\ntR.",
        "bad_stack_global": HEAD + texts(b"os", b"system") + b"\x93.",
        "bad_reduce": HEAD + b"](R.",
        "bad_build": HEAD + b"}}b.",
        "bad_persistent": HEAD + b"Pid\n.",
        "bad_binput": pickle.dumps(empty, protocol=2),
        "bad_none": HEAD + b"N.",
        "bad_setitem": HEAD + b"}K\x01K\x02s.",
        "bad_protocol": b"\x80\x09.",
        "bad_memo": HEAD + b"]\x94h\x05.",
        "bad_memo_empty": HEAD + b"\x94.",
        "bad_long_memo": HEAD + b"]\x94j\xff\xff\xff\xff.",
        "bad_stop_empty": HEAD + b".",
        "bad_stop_two": HEAD + b"]].",
        "bad_stop_mark": HEAD + b"](.",
        "bad_marks": HEAD + b"(" * 300,
        "bad_appends": HEAD + b"e.",
        "bad_appends_number": HEAD + b"K\x01(K\x02e.",
        "bad_appends_mark": HEAD + b"](e(K\x01e.",
        "bad_append_mark": HEAD + b"](K\x01a.",
        "bad_setitems_odd": HEAD + b"}(K\x01u.",
        "bad_setitems_list": HEAD + b"](K\x01K\x02u.",
        "bad_tuple": HEAD + b"K\x01(K\x02\x86.",
        "bad_text_cut": HEAD + b"X\xff\xff\xff\xffabc",
        "bad_long_cut": HEAD + b"\x8a\xff\x01",
        "bad_frame": HEAD + b"\x95" + struct.pack("<Q", 1 << 60) + b"].",
        "bad_empty_file": b"",
    }
    folder = os.path.join(HERE, "corpus_pickle")
    os.makedirs(folder, exist_ok=True)
    for name, data in files.items():
        with open(os.path.join(folder, name), "wb") as out:
            out.write(data)
    events = {"torch.pickle": plain, "torch.pickle.gz": gzip.compress(plain, mtime=0),
              "bad_torch_cut.pickle": files["bad_cut"], "bad_torch_global.pickle": files["bad_global"],
              "bad_torch_empty.pickle": files["good_empty"], "bad_torch_other.pickle": files["good_number"]}
    for name, data in events.items():
        with open(os.path.join(HERE, "corpus", name), "wb") as out:
            out.write(data)


if __name__ == "__main__":
    main()
