"""Weight shapes of a layer, and times of shapes that a table lacks."""

import numpy as np
import pytest

from kvsim.calibrate.sources.layer_shapes import Shape, ShapeTable, layer_shapes
from kvsim.sim.models import load_model


def linear_table() -> ShapeTable:
    tokens = np.array([1.0, 64])
    sizes = (2048, 4096, 8192, 16384)
    us = {Shape(n, k): np.array([5 + n * k / 1e6, 10 + n * k / 1e5]) for n in sizes for k in sizes}
    return ShapeTable(tokens, us)


def test_shapes_of_a_layer_and_of_a_rank() -> None:
    llama = load_model("llama-3.1-8b")
    assert layer_shapes(llama, 1) == ((6144, 4096), (4096, 4096), (28672, 4096), (4096, 14336))
    assert layer_shapes(llama, 2) == ((3072, 4096), (4096, 2048), (14336, 4096), (4096, 7168))
    assert sum(n * k for n, k in layer_shapes(llama, 16)[:1]) == (2048 // 8 + 256) * 4096, (
        "KV heads are copied where there are more ranks than heads"
    )


@pytest.mark.parametrize("name", ["qwen3-30b-a3b", "gpt2", "falcon-7b"])
def test_a_layer_made_of_other_products_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name}: its layers are not the q/k/v, output"):
        layer_shapes(load_model(name), 1)


@pytest.mark.parametrize(
    "shape", [Shape(6144, 4096), Shape(4096, 6144), Shape(6144, 6144), Shape(12288, 3072)]
)
def test_what_is_linear_in_n_and_k_is_interpolated_exactly(shape: Shape) -> None:
    product = shape.n * shape.k
    assert linear_table().at(shape) == pytest.approx([5 + product / 1e6, 10 + product / 1e5])


def test_a_measured_shape_is_taken_as_it_is_and_can_be_left_out() -> None:
    table = linear_table()
    table.us[Shape(4096, 4096)] = np.array([1.0, 1.0])
    assert table.at(Shape(4096, 4096)).tolist() == [1.0, 1.0]
    assert table.left_out(Shape(4096, 4096)) == pytest.approx([5 + 4096**2 / 1e6, 177.77216])
    assert Shape(4096, 4096) in table.us


def test_beyond_the_largest_it_grows_in_proportion() -> None:
    table = linear_table()
    assert table.at(Shape(32768, 4096)) == pytest.approx(2 * table.us[Shape(16384, 4096)])


def test_a_table_of_one_shape_says_nothing_of_others() -> None:
    with pytest.raises(ValueError, match="too few weight shapes"):
        ShapeTable(np.ones(1), {Shape(8, 8): np.ones(1)}).at(Shape(4, 4))
