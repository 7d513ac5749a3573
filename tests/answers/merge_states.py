import math

import torch


def _merged(m, a, b, l_a, o_a, l_b, o_b):
    return m, l_a * a + l_b * b, o_a * a[:, None] + o_b * b[:, None]


def right_without_nan(m_a, l_a, o_a, m_b, l_b, o_b):
    m = torch.max(m_a, m_b)
    a, b = (torch.exp(x - m).nan_to_num(0.0) for x in (m_a, m_b))
    return _merged(m, a, b, l_a, o_a, l_b, o_b)


def right_query_by_query(m_a, l_a, o_a, m_b, l_b, o_b):
    for i in range(len(m_a)):
        if m_b[i] == -math.inf:
            continue
        m = torch.maximum(m_a[i], m_b[i])
        a, b = torch.exp(m_a[i] - m), torch.exp(m_b[i] - m)
        m_a[i], l_a[i], o_a[i] = m, l_a[i] * a + l_b[i] * b, o_a[i] * a + o_b[i] * b
    return [m_a, l_a, o_a]


def wrong_clamped_at_10_to_the_30(m_a, l_a, o_a, m_b, l_b, o_b):
    m = torch.maximum(m_a, m_b)
    a, b = (torch.exp(x - m.clamp(min=-1e30)) for x in (m_a, m_b))
    return _merged(m, a, b, l_a, o_a, l_b, o_b)


def wrong_only_the_second_rescaled(m_a, l_a, o_a, m_b, l_b, o_b):
    """only the second state"""
    m = torch.maximum(m_a, m_b)
    return _merged(m, torch.ones_like(m), torch.exp(m_b - m).nan_to_num(0.0), l_a, o_a, l_b, o_b)
