// What declarations of host code need, as far as they stay when host code is removed: names of the C++ standard library
// that libcu++ does not have. Nothing of this runs.
#pragma once

// Functions for the host are not compiled, but their declarations are.
#undef __host__
#define __host__

#include <algorithm>
#include <array>
#include <cfloat>
#include <climits>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <limits>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>

namespace std {
template <class C, class... R> struct basic_string {
    static constexpr size_t npos = -1;
    basic_string() = default;
    template <class... A> basic_string(A&&...);
    const C* c_str() const;
    const C* data() const;
    size_t size() const;
    size_t length() const;
    bool empty() const;
    template <class... A> size_t find(A&&...) const;
    basic_string substr(size_t = 0, size_t = 0) const;
    C& operator[](size_t);
    const C* begin() const;
    const C* end() const;
    template <class A> basic_string& operator+=(A&&);
    template <class A> basic_string operator+(A&&) const;
    template <class A> bool operator==(A&&) const;
    template <class A> bool operator!=(A&&) const;
    template <class A> bool operator<(A&&) const;
};
using string = basic_string<char>;
template <class... A> string operator+(const char*, basic_string<A...>);
template <class A> string to_string(A&&);

template <class T, class... R> struct vector {
    using value_type = T;
    vector() = default;
    template <class... A> vector(A&&...);
    vector(std::initializer_list<T>);
    T& operator[](size_t);
    const T& operator[](size_t) const;
    T& at(size_t);
    const T& at(size_t) const;
    T* data();
    const T* data() const;
    T* begin();
    const T* begin() const;
    T* end();
    const T* end() const;
    T& front();
    const T& front() const;
    T& back();
    const T& back() const;
    size_t size() const;
    bool empty() const;
    void clear();
    void pop_back();
    template <class... A> void resize(A&&...);
    template <class... A> void reserve(A&&...);
    template <class... A> void assign(A&&...);
    template <class... A> void push_back(A&&...);
    template <class... A> T& emplace_back(A&&...);
    template <class... A> T* insert(A&&...);
    template <class... A> T* erase(A&&...);
};
template <class T, class... R> struct deque : vector<T> {};
template <class T, class... R> struct list : vector<T> {};
template <class T, class... R> struct queue : vector<T> {};
template <class T, class... R> struct stack : vector<T> {};

template <class K, class V, class... R> struct map {
    struct entry {
        K first;
        V second;
    };
    V& operator[](const K&);
    V& at(const K&);
    const V& at(const K&) const;
    entry* begin();
    const entry* begin() const;
    entry* end();
    const entry* end() const;
    template <class A> entry* find(A&&);
    template <class A> const entry* find(A&&) const;
    template <class A> size_t count(A&&) const;
    size_t size() const;
    bool empty() const;
    void clear();
    template <class... A> void insert(A&&...);
    template <class... A> void emplace(A&&...);
    template <class... A> void erase(A&&...);
};
template <class K, class V, class... R> struct unordered_map : map<K, V> {};
template <class K, class V, class... R> struct multimap : map<K, V> {};
template <class K, class... R> struct set : map<K, K> {};
template <class K, class... R> struct unordered_set : map<K, K> {};

template <class T> struct shared_ptr {
    shared_ptr() = default;
    template <class... A> shared_ptr(A&&...);
    T* get() const;
    T* operator->() const;
    T& operator*() const;
    explicit operator bool() const;
    template <class... A> void reset(A&&...);
};
template <class T> struct weak_ptr {
    shared_ptr<T> lock() const;
};
template <class T> struct enable_shared_from_this {};
template <class T, class... A> shared_ptr<T> make_shared(A&&...);
template <class T> struct function;
template <class R, class... P> struct function<R(P...)> {
    function() = default;
    template <class F> function(F&&);
    R operator()(P...) const;
    explicit operator bool() const;
};

struct once_flag {};
struct mutex {
    void lock();
    void unlock();
};
struct recursive_mutex : mutex {};
struct shared_mutex : mutex {};
struct condition_variable {};
struct thread {
    struct id {};
};
template <class... M> struct lock_guard {
    template <class... A> lock_guard(A&&...);
};
template <class... M> struct unique_lock {
    template <class... A> unique_lock(A&&...);
};
template <class... M> struct scoped_lock {
    template <class... A> scoped_lock(A&&...);
};
template <class... A> void call_once(A&&...);
template <class T> struct future {};
template <class T> struct promise {};
struct random_device {
    unsigned operator()();
};
struct mt19937 {
    template <class... A> mt19937(A&&...);
    unsigned operator()();
};
using mt19937_64 = mt19937;
using default_random_engine = mt19937;
template <class T = float> struct uniform_real_distribution {
    template <class... A> uniform_real_distribution(A&&...);
    template <class G> T operator()(G&&);
};
template <class T = float> struct normal_distribution : uniform_real_distribution<T> {};
template <class T = int> struct uniform_int_distribution : uniform_real_distribution<T> {};

struct ostream {
    template <class A> ostream& operator<<(A&&);
};
struct istream {};
struct iostream : ostream {};
struct ofstream : ostream {};
struct ifstream : istream {};
struct fstream : ostream {};
struct ostringstream : ostream {
    string str() const;
};
struct stringstream : ostringstream {};
struct istringstream : istream {};
struct exception {
    virtual const char* what() const noexcept;
};
struct runtime_error : exception {
    template <class... A> runtime_error(A&&...);
};
struct logic_error : runtime_error {};
struct invalid_argument : runtime_error {};
struct out_of_range : runtime_error {};
}
