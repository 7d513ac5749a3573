// Attention in C++ twice: one heap-allocated node for each number, which can be differentiated, and flat arrays.
// All matrices are row-major arrays of double: q and o [n_q, d], k and v [n_k, d].

#include <algorithm>
#include <cmath>
#include <limits>
#include <new>
#include <vector>

namespace {

// --- nodes ---

struct Value {
    double data, grad = 0;
    Value *a, *b;          // what it was computed from
    double slope_a, slope_b;  // its derivative with respect to each
};

// Makes nodes with new and deletes them all at its end. Nodes are made after their parents: the order of making is one
// in which a graph can be walked.
struct Graph {
    std::vector<Value*> nodes;
    ~Graph() { for (Value* node : nodes) delete node; }

    Value* make(double data, Value* a = nullptr, Value* b = nullptr, double slope_a = 0, double slope_b = 0) {
        nodes.push_back(new Value{data, 0, a, b, slope_a, slope_b});
        return nodes.back();
    }
    Value* add(Value* x, Value* y) { return make(x->data + y->data, x, y, 1, 1); }
    Value* sub(Value* x, Value* y) { return make(x->data - y->data, x, y, 1, -1); }
    Value* mul(Value* x, Value* y) { return make(x->data * y->data, x, y, y->data, x->data); }
    Value* div(Value* x, Value* y) {
        const double ratio = x->data / y->data;
        return make(ratio, x, y, 1 / y->data, -ratio / y->data);
    }
    Value* exp(Value* x) {
        const double e = std::exp(x->data);
        return make(e, x, nullptr, e, 0);
    }
    std::vector<Value*> leaves(const double* x, long count) {
        std::vector<Value*> made;
        for (long i = 0; i < count; ++i) made.push_back(make(x[i]));
        return made;
    }
};

std::vector<Value*> attention(Graph& graph, const std::vector<Value*>& q, const std::vector<Value*>& k,
                              const std::vector<Value*>& v, long n_q, long n_k, long d) {
    std::vector<Value*> output;
    Value* scale = graph.make(1 / std::sqrt(double(d)));
    for (long i = 0; i < n_q; ++i) {
        std::vector<Value*> weights;
        double largest = -std::numeric_limits<double>::infinity();
        for (long j = 0; j < n_k; ++j) {
            Value* s = graph.mul(q[i * d], k[j * d]);
            for (long c = 1; c < d; ++c) s = graph.add(s, graph.mul(q[i * d + c], k[j * d + c]));
            weights.push_back(graph.mul(s, scale));
            largest = std::max(largest, weights.back()->data);
        }
        Value* shift = graph.make(largest);
        Value* total = nullptr;
        for (Value*& w : weights) {
            w = graph.exp(graph.sub(w, shift));
            total = total ? graph.add(total, w) : w;
        }
        for (Value*& w : weights) w = graph.div(w, total);
        for (long c = 0; c < d; ++c) {
            Value* o = graph.mul(weights[0], v[c]);
            for (long j = 1; j < n_k; ++j) o = graph.add(o, graph.mul(weights[j], v[j * d + c]));
            output.push_back(o);
        }
    }
    return output;
}

// What work() returns, or -1 where memory runs out: Python's caller is C, which an exception would end.
template <typename Work>
long or_no_memory(Work work) {
    try {
        return work();
    } catch (const std::bad_alloc&) {
        return -1;
    }
}

}  // namespace

extern "C" {

// Returns the number of nodes that were made, -1 where memory runs out.
long attention_nodes(const double* q, const double* k, const double* v, double* o, long n_q, long n_k, long d) {
    return or_no_memory([=]() -> long {
        Graph graph;
        const auto q_ = graph.leaves(q, n_q * d), k_ = graph.leaves(k, n_k * d), v_ = graph.leaves(v, n_k * d);
        const auto output = attention(graph, q_, k_, v_, n_q, n_k, d);
        for (long i = 0; i < n_q * d; ++i) o[i] = output[i]->data;
        return graph.nodes.size();
    });
}

// --- flat arrays ---

long value_bytes() { return sizeof(Value); }

void attention_flat(const double* q, const double* k, const double* v, double* o, long n_q, long n_k, long d) {
    std::vector<double> weights(n_k);
    for (long i = 0; i < n_q; ++i) {
        double largest = -std::numeric_limits<double>::infinity(), total = 0;
        for (long j = 0; j < n_k; ++j) {
            double s = 0;
            for (long c = 0; c < d; ++c) s += q[i * d + c] * k[j * d + c];
            weights[j] = s / std::sqrt(double(d));
            largest = std::max(largest, weights[j]);
        }
        std::fill(o + i * d, o + (i + 1) * d, 0.0);
        for (long j = 0; j < n_k; ++j) {
            const double w = std::exp(weights[j] - largest);
            total += w;
            for (long c = 0; c < d; ++c) o[i * d + c] += w * v[j * d + c];
        }
        for (long c = 0; c < d; ++c) o[i * d + c] /= total;
    }
}

}  // extern "C"

// Returns 0, or -1 where memory runs out.
extern "C" long try_attention_flat(const double* q, const double* k, const double* v, double* o, long n_q, long n_k, long d) {
    return or_no_memory([=]() -> long {
        attention_flat(q, k, v, o, n_q, n_k, d);
        return 0;
    });
}
