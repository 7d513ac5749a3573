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


def right_by_characters(loop):
    short = ""
    for line in loop:
        for pattern, letter in ((r"GMMA.*gsb0", "M"), (r"GMMA", "m"), (r"MUFU\.EX2", "e")):
            if re.search(pattern, line):
                short += letter
                break
        else:
            short += "".join(re.findall(r"DEPBAR\S* gsb0, 0x(\d)", line))
    groups, part, found = 0, 0, []
    for x in short * 9:
        if x == "e":
            found.append(groups + part)
        elif x in "mM":
            part = int(x == "m")
            groups += x == "M"
        else:
            groups = min(groups, int(x))
    n = short.count("e")
    last = found[len(found) - n :]
    return sum(x > 0 for x in last), sum(x > 1 for x in last), n


def wrong_one_iteration(loop):
    """gone through once"""
    return right_with_a_queue(loop, 1)


def wrong_only_a_wait_for_none_counts(loop):
    """two matmuls need a count"""
    hidden, _, powers = right_with_a_queue(loop)
    return hidden, 0, powers


def wrong_an_arrival_is_a_wait(loop):
    """WARPGROUP.ARRIVE is taken for a wait"""
    return right_with_a_queue([line.replace("ARRIVE", "DEPBAR.LE gsb0, 0x0") for line in loop])


def wrong_all_waits_alike(loop):
    """every wait is for all"""
    return right_with_a_queue([re.sub(r"0x\d", "0x0", line) for line in loop])


def wrong_only_hgmma(loop):
    """QGMMA is passed over"""
    return right_with_a_queue([line for line in loop if "QGMMA" not in line])
