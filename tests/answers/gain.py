def right_by_shares(step, attention, faster):
    share = attention / step
    return 1 / ((1 - share) + share / faster)


def wrong_bound(step, attention, faster):
    """if attention takes no time any more"""
    return step / (step - attention) if step > attention else float("inf")


def wrong_upside_down(step, attention, faster):
    return (step - attention + attention / faster) / step
