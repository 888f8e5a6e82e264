"""Wrong answers, and right ones of another make, for the chapter on grad."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

# --- grad.safe_norm ---------------------------------------------------------------


def with_epsilon(x):
    return jnp.sqrt(jnp.sum(x**2) + 1e-12)


def outside_alone(x):
    squares = jnp.sum(x**2)
    return jnp.where(squares > 0, jnp.sqrt(squares), 0.0)


def with_a_floor(x):
    squares = jnp.sum(x**2)
    inside = jnp.where(squares > 1e-10, squares, 1.0)
    return jnp.where(squares > 1e-10, jnp.sqrt(inside), 0.0)


def decided_in_python(x):
    if float(jnp.sum(jax.lax.stop_gradient(x) ** 2)) == 0:
        return jnp.sum(x) * 0
    return jnp.linalg.norm(x)


def for_two_numbers(x):
    return outside_alone_of(x[0], x[1])


def outside_alone_of(a, b):
    squares = a * a + b * b
    inside = jnp.where(squares > 0, squares, 1.0)
    return jnp.where(squares > 0, jnp.sqrt(inside), 0.0)


def stopped(x):
    return jax.lax.stop_gradient(jnp.linalg.norm(x))


def scaled_first(x):
    largest = jax.lax.stop_gradient(jnp.max(jnp.abs(x)))
    unit = x / jnp.where(largest > 0, largest, 1.0)
    inside = jnp.where(largest > 0, jnp.sum(unit**2), 1.0)
    return jnp.where(largest > 0, largest * jnp.sqrt(inside), 0.0)


@jax.custom_vjp
def norm_with_a_rule(x):
    return jnp.sqrt(jnp.sum(x * x))


def _norm_forward(x):
    length = norm_with_a_rule(x)
    return length, (x, length)


def _norm_backward(kept, care):
    x, length = kept
    return (care * x / jnp.where(length == 0, 1.0, length),)


norm_with_a_rule.defvjp(_norm_forward, _norm_backward)

# --- grad.hessian_diagonal --------------------------------------------------------


def push(f, x, direction):
    return jax.jvp(jax.grad(f), (x,), (direction,))[1]


def whole_hessian(f, x):
    return jax.hessian(f)(x)


def diagonal_of_the_whole(f, x):
    return jnp.diag(jax.hessian(f)(x))


def all_at_once(f, x):
    return jax.vmap(lambda e: push(f, x, e) @ e)(jnp.eye(len(x)))


def row_sums(f, x):
    return push(f, x, jnp.ones_like(x))


def squares_of_slopes(f, x):
    return jax.grad(f)(x) ** 2


def all_directions_held(f, x):
    return jax.lax.map(lambda e: jnp.vdot(push(f, x, e), e), jnp.eye(len(x)))


def by_pulls(f, x):
    def entry(i):
        return jax.grad(lambda x: jax.grad(f)(x)[i])(x)[i]

    return jax.lax.map(entry, jnp.arange(x.size))


def by_a_loop_in_place(f, x):
    def body(i, diagonal):
        direction = jax.nn.one_hot(i, x.size, dtype=x.dtype)
        return diagonal.at[i].set(jnp.vdot(direction, push(f, x, direction)))

    return jax.lax.fori_loop(0, x.size, body, jnp.zeros_like(x))


# --- grad.agrees ------------------------------------------------------------------


def differences(f, gradient, x, dtype, h, compare):
    with jax.enable_x64(True):
        x = np.asarray(x, dtype)
        claimed, slopes = np.asarray(gradient(x)), np.zeros(len(x))
        for i in range(len(x)):
            step = np.zeros_like(x)
            step[i] = h
            slopes[i] = (f(x + step) - f(x - step)) / (2 * h)
        return compare(claimed, slopes)


def close(claimed, slopes):
    return bool(np.allclose(claimed, slopes, rtol=1e-4, atol=1e-7))


in_float32 = partial(differences, dtype="float32", h=1e-3, compare=close)
step_too_small = partial(differences, dtype="float64", h=1e-14, compare=close)
too_tolerant = partial(
    differences,
    dtype="float64",
    h=1e-5,
    compare=lambda c, s: bool(np.allclose(c, s, rtol=1e-2)),
)
lets_nan_pass = partial(
    differences,
    dtype="float64",
    h=1e-5,
    compare=lambda c, s: not bool((np.abs(c - s) > 1e-4 * np.abs(s) + 1e-7).any()),
)
by_the_largest = partial(
    differences,
    dtype="float64",
    h=1e-5,
    compare=lambda c, s: bool(np.abs(c - s).max() < 5e-4 * np.abs(s).max()),
)
by_the_length = partial(
    differences,
    dtype="float64",
    h=1e-5,
    compare=lambda c, s: bool(np.linalg.norm(c - s) < 8e-4 * np.linalg.norm(s)),
)
tolerant_in_float32 = partial(
    differences,
    dtype="float32",
    h=1e-2,
    compare=lambda c, s: bool(np.allclose(c, s, rtol=1e-2, atol=1e-4)),
)


def believes_jax(f, gradient, x):
    with jax.enable_x64(True):
        return close(np.asarray(gradient(x)), np.asarray(jax.grad(f)(x)))


def entry_by_entry(f, gradient, x):
    return np.abs(gradient(x) - x) < 1e3


def along_random_directions(f, gradient, x):
    random = np.random.default_rng(1)
    with jax.enable_x64(True):
        claimed = np.asarray(gradient(x))
        for _ in range(3):
            v = random.choice([-1.0, 1.0], len(x)) * 3e-5
            change = float(f(x + v) - f(x - v)) / 2
            if not abs(claimed @ v - change) <= 1e-6 * np.abs(claimed * v).sum():
                return np.bool_(False)
    return np.bool_(True)


# --- grad.fixed_point -------------------------------------------------------------


def iterated(step, x, limit=10_000):
    def moving(state):
        x, previous, count = state
        moved = jnp.max(jnp.abs(x - previous))
        return (moved > 1e-7 * jnp.max(jnp.abs(x))) & (count < limit)

    def advance(state):
        x, _, count = state
        return step(x), x, count + 1

    return jax.lax.while_loop(moving, advance, (step(x), x, 0))[0]


def without_a_rule(f, theta, start):
    return iterated(lambda x: f(theta, x), start)


def one_last_step(f, theta, start):
    found = iterated(lambda x: f(theta, x), start)
    return f(theta, jax.lax.stop_gradient(found))


def one_last_step_by_rule(f, theta, start):
    return with_rule(lambda pull, c: c)(f, theta, start)


def unrolled(f, theta, start, steps=600):
    return jax.lax.scan(lambda x, _: (f(theta, x), None), start, length=steps)[0]


def a_few_steps(f, theta, start):
    return unrolled(f, theta, start, 3)


def with_rule(solve, of_start=jnp.zeros_like):
    """A fixed point whose backward pass solves for u as the argument says."""

    @partial(jax.custom_vjp, nondiff_argnums=(0,))
    def fixed_point(f, theta, start):
        return iterated(lambda x: f(theta, x), start)

    def forward(f, theta, start):
        x = fixed_point(f, theta, start)
        return x, (theta, x)

    def backward(f, kept, care):
        theta, x = kept
        u = solve(partial(at, f, theta, x), care)
        _, pull = jax.vjp(lambda theta: f(theta, x), theta)
        return pull(u)[0], of_start(x)

    fixed_point.defvjp(forward, backward)
    return fixed_point


def at(f, theta, x, u, pushed=False):
    """What df/dx makes of u, pulled or pushed."""
    if pushed:
        return jax.jvp(lambda x: f(theta, x), (x,), (u,))[1]
    return jax.vjp(lambda x: f(theta, x), x)[1](u)[0]


def pushed_through(pull, care):
    return iterated(lambda u: care + pull(u, pushed=True), care)


def ten_terms(pull, care):
    u = care
    for _ in range(10):
        u = care + pull(u)
    return u


def solved(pull, care):
    return iterated(lambda u: care + pull(u), care)


def powers_of_the_pull(pull, care):
    """Another right way: the series, added up for a fixed number of terms."""

    def body(_, state):
        total, term = state
        term = pull(term)
        return total + term, term

    return jax.lax.fori_loop(0, 2000, body, (care, care))[0]


def with_the_matrix(pull, care):
    """Another right way: a linear system in the n times n matrix of derivatives."""
    matrix = jax.vmap(pull)(jnp.eye(len(care)))
    return jnp.linalg.solve(jnp.eye(len(care)) - matrix.T, care)


def jitted_inside(f, gradient, x):
    gradient = jax.jit(gradient)
    return differences(f, gradient, x, dtype="float64", h=1e-5, compare=close)


WRONG = {
    "grad.freezing": [
        ([1.6, 2.2], "passes layers 10 and 9 alone"),
        ([2.9, 2.9], "all ten layers trained"),
        ([0.5, 1.2], "add the forward pass"),
        ([2.2, 1.5], "the last come first here"),
        ([1.5, 1.5], "a longer way to the first"),
        ([1.5, 2.3], "does not pass layer 1"),
        ([1.5, 1.2], "add the forward pass"),
        ([15, 22], "give multiples"),
        (1.5, "expected two numbers"),
    ],
    "grad.safe_norm": [
        (with_epsilon, "length of 0 is 0"),
        (outside_alone, "still sees a 0"),
        (jnp.linalg.norm, "still sees a 0"),
        (with_a_floor, "add no epsilon"),
        (decided_in_python, "your function raised"),
        (stopped, "gradient is off"),
        (for_two_numbers, "for seven"),
        (lambda x: jnp.sum(jnp.abs(x)), "length of [3, 4] is 5"),
    ],
    "grad.hessian_diagonal": [
        (whole_hessian, "the whole Hessian"),
        (diagonal_of_the_whole, "one after another"),
        (all_at_once, "one after another"),
        (all_directions_held, "one after another"),
        (row_sums, "sum of each row"),
        (squares_of_slopes, "not the second derivatives"),
        (lambda f, x: jax.grad(jax.grad(f))(x), "your function raised TypeError"),
    ],
    "grad.agrees": [
        (in_float32, "or float32"),
        (tolerant_in_float32, "compute in float64"),
        (by_the_length, "the largest slope has passed"),
        (step_too_small, "a step too small"),
        (too_tolerant, "off by one part in a thousand has passed"),
        (lets_nan_pass, "with a NaN in it has passed"),
        (by_the_largest, "in a single entry has passed"),
        (believes_jax, "you have believed it"),
        (lambda f, gradient, x: True, "wrong sign has passed"),
        (lambda f, gradient, x: False, "a right gradient was refused"),
        (entry_by_entry, "one for the whole gradient"),
    ],
    "grad.fixed_point": [
        (without_a_rule, "your function raised ValueError"),
        (one_last_step, "one last step"),
        (one_last_step_by_rule, "one last step"),
        (with_rule(pushed_through), "transposed"),
        (with_rule(ten_terms), "solve it to convergence"),
        (with_rule(solved, jnp.ones_like), "in start must be 0"),
        (unrolled, "kept for each step"),
        (a_few_steps, "not the fixed point"),
        (partial(unrolled, steps=200), "kept for each step"),
    ],
}

RIGHT = [
    ("grad.freezing", ([np.float32(1.5), 2.2],)),
    ("grad.safe_norm", (norm_with_a_rule,)),
    ("grad.safe_norm", (jax.jit(scaled_first),)),
    ("grad.hessian_diagonal", (by_pulls,)),
    ("grad.hessian_diagonal", (by_a_loop_in_place,)),
    ("grad.agrees", (along_random_directions,)),
    ("grad.fixed_point", (with_rule(solved),)),
    ("grad.agrees", (jitted_inside,)),
    ("grad.fixed_point", (with_rule(powers_of_the_pull),)),
    ("grad.fixed_point", (with_rule(with_the_matrix),)),
]
