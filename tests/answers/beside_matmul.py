import re


def right_with_a_queue(loop, turns=20):
    under_way, open_ = [], False
    for turn in range(turns):
        hidden = twice = powers = 0
        for line in loop:
            words = line.replace(",", "").split()
            opcode = words[1] if words[0].startswith("@") else words[0]
            if opcode.startswith(("HGMMA", "QGMMA")):
                open_ = True
                if words[-1] == "gsb0":
                    under_way.append(turn)
                    open_ = False
            elif opcode == "WARPGROUP.DEPBAR.LE":
                while len(under_way) > int(words[-1], 0):
                    under_way.pop(0)
            elif opcode == "MUFU.EX2":
                powers += 1
                hidden += bool(under_way) or open_
                twice += len(under_way) + open_ >= 2
    return [hidden, twice, powers]


def wrong_one_iteration(loop):
    """gone through once"""
    return right_with_a_queue(loop, 1)


def wrong_only_a_wait_for_none_counts(loop):
    """two matmuls need a count"""
    hidden, _, powers = right_with_a_queue(loop)
    return hidden, 0, powers


def wrong_all_waits_alike(loop):
    """every wait is for all"""
    return right_with_a_queue([re.sub(r"0x\d", "0x0", line) for line in loop])
